use crate::driver::OpResult;
use crate::view::OpView;
use crate::{flag_checks, permission, write_lease};
use gupfs_proto::meta::{MetaReplyBody, XattrName};
use gupfs_proto::{FileMode, InodeId};

/// An unprivileged caller wrote: clears setuid and setgid, so that no program runs its bytes with another user's rights. ctime is
/// updated if anything was cleared.
pub(crate) fn kill_privileges(view: &mut OpView, ino: InodeId) -> OpResult<MetaReplyBody> {
    let inode = view.inode(ino)?;
    inode.file()?;
    flag_checks::check_contents(&inode)?;
    write_lease::require_attr_report(view, &inode)?;
    after_write(view, ino, true)?;
    Ok(MetaReplyBody::Attr(view.inode(ino)?.attr()))
}

/// Removes file capabilities after a write of any caller; clears the mode's bits if the caller is unprivileged: if the client's
/// kernel says so (`kill`), and always if the caller is not root on this server, whatever its host says.
pub(crate) fn after_write(view: &mut OpView, ino: InodeId, kill: bool) -> OpResult<()> {
    let inode = view.inode(ino)?;
    let cleared = permission::mode_after_write(&inode, view.ctx.caller);
    set_mode_without_privileges(view, ino, kill, cleared)
}

/// As `after_write`, for a client that writes on behalf of an open file: the groups of the writing process are not known here, so
/// setgid is cleared only if the group may execute the file.
pub(crate) fn after_write_by_client(view: &mut OpView, ino: InodeId, kill: bool) -> OpResult<()> {
    let inode = view.inode(ino)?;
    let cleared = permission::mode_after_write_by_any_group(&inode);
    set_mode_without_privileges(view, ino, kill, cleared)
}

fn set_mode_without_privileges(
    view: &mut OpView,
    ino: InodeId,
    kill: bool,
    cleared: FileMode,
) -> OpResult<()> {
    let inode = view.inode(ino)?;
    let mode = match kill || !view.ctx.caller.is_root() {
        true => cleared,
        false => inode.mode,
    };
    let has_capability = inode
        .security
        .iter()
        .any(|(name, _)| name.as_bytes() == XattrName::CAPABILITY);
    if mode == inode.mode && !has_capability {
        return Ok(());
    }
    let now = view.ctx.now;
    view.change(ino, |inode| {
        inode.touch_ctime(now);
        inode.mode = mode;
        inode
            .security
            .retain(|(name, _)| name.as_bytes() != XattrName::CAPABILITY);
    })
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
