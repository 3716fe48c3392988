use crate::step::Outcome;
use crate::view::View;
use crate::{held, may, protected};
use gupfs_proto::meta::{Answer, XattrName};
use gupfs_proto::{InodeId, Mode};

/// Somebody unprivileged wrote: setuid and setgid go, so that nobody's bytes run with another's rights. ctime is updated if
/// anything went.
pub(crate) fn kill_privileges(view: &mut View, ino: InodeId) -> Outcome<Answer> {
    let inode = view.inode(ino)?;
    inode.file()?;
    protected::contents(&inode)?;
    held::must_have_told(view, &inode)?;
    after_write(view, ino, true)?;
    Ok(Answer::Attr(view.inode(ino)?.attr()))
}

/// File capabilities go whoever wrote; the mode's bits if the writer has no privilege: by the kernel's word (`kill`), and always
/// if it is not root here, whatever is said of it elsewhere.
pub(crate) fn after_write(view: &mut View, ino: InodeId, kill: bool) -> Outcome<()> {
    let inode = view.inode(ino)?;
    let left = may::without_privileges(&inode, view.ctx.caller);
    leave(view, ino, kill, left)
}

/// The same where a client writes on behalf of a file that is open: whose groups count is not known here, so setgid goes only
/// where the group may execute the file.
pub(crate) fn after_write_by_client(view: &mut View, ino: InodeId, kill: bool) -> Outcome<()> {
    let inode = view.inode(ino)?;
    let left = may::without_privileges_of_any_group(&inode);
    leave(view, ino, kill, left)
}

fn leave(view: &mut View, ino: InodeId, kill: bool, left: Mode) -> Outcome<()> {
    let inode = view.inode(ino)?;
    let mode = match kill || !view.ctx.caller.is_root() {
        true => left,
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
        inode.touch(now);
        inode.mode = mode;
        inode
            .security
            .retain(|(name, _)| name.as_bytes() != XattrName::CAPABILITY);
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use gupfs_proto::meta::{Answer, Op, SetAttr, WriteAt};
    use gupfs_proto::{Caller, Mode, Refusal};

    #[test]
    fn a_write_without_privilege_takes_setuid_and_group_execution() {
        let mut server = Server::new(1);
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
            let (at, data) = (WriteAt::End, bytes::Bytes::from_static(b"x"));
            let op = Op::WriteInline {
                ino: file,
                at,
                data,
                kill_privileges: true,
            };
            server.ask(&root, &op).unwrap();
            assert_eq!(server.getattr(file).unwrap().mode, Mode(left));
        }
        // A writer who is not of the group takes setgid in any case.
        let file = server.create(&root, ROOT, "g", 0o2666).unwrap().ino;
        server
            .ask(&user(1000), &Op::KillPrivileges { ino: file })
            .unwrap();
        assert_eq!(server.getattr(file).unwrap().mode, Mode(0o666));
        let again = server.ask(&user(1000), &Op::KillPrivileges { ino: file });
        assert!(matches!(again, Ok(Answer::Attr(_))) && server.batch.is_empty());
        assert_eq!(
            server.ask(&root, &Op::KillPrivileges { ino: ROOT }),
            Err(Refusal::IsDirectory)
        );
    }

    #[test]
    fn file_capabilities_go_with_any_write_and_change_of_owner() {
        let mut server = Server::new(1);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o755).unwrap().ino;
        let changes: [fn(&mut Server, gupfs_proto::InodeId); 4] = [
            |server, file| drop(server.write_inline(file, WriteAt::End, b"x").unwrap()),
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
