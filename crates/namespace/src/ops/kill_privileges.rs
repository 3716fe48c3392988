use crate::driver::OpResult;
use crate::flag_checks;
use crate::requester::RequestingSession;
use crate::steps::{privileges, write_lease};
use crate::view::OpView;
use gupfs_proto::meta::MetaReplyBody;
use gupfs_proto::{Caller, InodeId};

/// An unprivileged caller wrote: clears setuid and setgid, so that no program runs its bytes with another user's rights. ctime is
/// updated if anything was cleared.
pub(crate) fn kill_privileges(
    view: &mut OpView,
    session: &RequestingSession,
    caller: &Caller,
    ino: InodeId,
) -> OpResult<MetaReplyBody> {
    let inode = view.inode(ino)?;
    inode.file()?;
    flag_checks::check_contents(&inode)?;
    write_lease::require_attr_report(view, session, &inode)?;
    privileges::kill_after_write(view, caller, ino, true)?;
    Ok(MetaReplyBody::Attr(view.inode(ino)?.attr()))
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use gupfs_proto::meta::{MetaOp, MetaReplyBody, SetAttr, WritePosition};
    use gupfs_proto::{Caller, FileMode, FsError};

    #[test]
    fn an_unprivileged_write_clears_setuid_and_group_executable_setgid() {
        let mut server = TestServer::new(1);
        let root = Caller::root();
        for (mode, left) in [
            (0o6755, 0o755),
            (0o4711, 0o711),
            (0o2745, 0o2745),
            (0o644, 0o644),
        ] {
            let file = server
                .create(&root, ROOT, &format!("f{mode}"), mode)
                .unwrap()
                .ino;
            let (at, data) = (WritePosition::End, bytes::Bytes::from_static(b"x"));
            let op = MetaOp::WriteInline {
                ino: file,
                at,
                data,
                kill_privileges: true,
            };
            server.request(&root, &op).unwrap();
            assert_eq!(server.getattr(file).unwrap().mode, FileMode(left));
        }
        // A write of a caller that is not in the group always clears setgid.
        let file = server.create(&root, ROOT, "g", 0o2666).unwrap().ino;
        server
            .request(&user(1000), &MetaOp::KillPrivileges { ino: file })
            .unwrap();
        assert_eq!(server.getattr(file).unwrap().mode, FileMode(0o666));
        let again = server.request(&user(1000), &MetaOp::KillPrivileges { ino: file });
        assert!(matches!(again, Ok(MetaReplyBody::Attr(_))) && server.batch.is_empty());
        assert_eq!(
            server.request(&root, &MetaOp::KillPrivileges { ino: ROOT }),
            Err(FsError::IsDirectory)
        );
    }

    #[test]
    fn file_capabilities_are_removed_by_any_write_and_change_of_owner() {
        let mut server = TestServer::new(1);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o755).unwrap().ino;
        let changes: [fn(&mut TestServer, gupfs_proto::InodeId); 4] = [
            |server, file| drop(server.write_inline(file, WritePosition::End, b"x").unwrap()),
            |server, file| drop(server.truncate(file, 0).unwrap()),
            |server, file| drop(server.begin_write(file).unwrap()),
            |server, file| {
                let set = SetAttr {
                    uid: Some(0),
                    ..SetAttr::default()
                };
                server.setattr(&Caller::root(), file, set).unwrap();
            },
        ];
        for change in changes {
            server
                .set_xattr(&root, file, "security.capability", b"caps")
                .unwrap();
            server
                .set_xattr(&root, file, "security.selinux", b"label")
                .unwrap();
            change(&mut server, file);
            assert_eq!(server.list_xattr(&root, file), ["security.selinux"]);
        }
        server.assert_clean();
    }
}
