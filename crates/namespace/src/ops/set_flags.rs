use crate::step::Outcome;
use crate::view::View;
use crate::{held, may};
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::meta::Answer;
use gupfs_proto::{FileKind, InodeId, Refusal};

/// FS_IOC_SETFLAGS: the file becomes immutable or append only, or is so no more; ctime is updated. Only root may change what is set, and the
/// owner may say what is so already. What a session still had to write is written before: it gives the file back.
pub(crate) fn set_flags(view: &mut View, ino: InodeId, flags: InodeFlags) -> Outcome<Answer> {
    let inode = view.inode(ino)?;
    let caller = view.ctx.caller;
    if !matches!(inode.kind, FileKind::Regular | FileKind::Directory)
        || !InodeFlags::SETTABLE.contains(flags)
    {
        return Err(Refusal::NotSupported.into());
    }
    held::must_be_known(view, &inode, false)?;
    if !may::owns(&inode, caller) {
        return Err(Refusal::NotPermitted.into());
    }
    if inode.flags & InodeFlags::SETTABLE == flags {
        return Ok(Answer::Attr(inode.attr()));
    }
    if !caller.is_root() {
        return Err(Refusal::NotPermitted.into());
    }
    held::must_be_given_back(view, &inode)?;
    let now = view.ctx.now;
    let attr = view.change(ino, |inode| {
        inode.touch(now);
        inode.flags = (inode.flags - InodeFlags::SETTABLE) | flags;
        inode.attr()
    })?;
    Ok(Answer::Attr(attr))
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use gupfs_proto::attr::InodeFlags;
    use gupfs_proto::meta::{Access, Op, OpenHow, RenameHow, SetAttr, SetTime, WriteAt};
    use gupfs_proto::{Caller, InodeId, Refusal, Timestamp};

    const DENIED: Refusal = Refusal::NotPermitted;

    fn set(
        server: &mut Server,
        who: &Caller,
        ino: InodeId,
        flags: InodeFlags,
    ) -> Result<(), Refusal> {
        server.ask(who, &Op::SetFlags { ino, flags }).map(|_| ())
    }

    fn open(ino: InodeId, access: Access, truncate: bool) -> Op {
        let open = OpenHow {
            access,
            truncate,
            kill_privileges: false,
        };
        Op::Open { ino, open }
    }

    #[test]
    fn only_root_sets_them_and_the_owner_may_say_what_is_so() {
        let mut server = Server::new(2);
        let dir = server.mkdir(&Caller::root(), ROOT, "d", 0o777).unwrap().ino;
        let file = server.create(&user(1000), dir, "f", 0o644).unwrap().ino;
        let immutable = InodeFlags::IMMUTABLE;
        assert_eq!(set(&mut server, &user(1000), file, immutable), Err(DENIED));
        assert_eq!(
            set(&mut server, &user(1000), file, InodeFlags::empty()),
            Ok(())
        );
        assert_eq!(
            set(&mut server, &user(1001), file, InodeFlags::empty()),
            Err(DENIED)
        );
        let before = server.getattr(file).unwrap();
        set(&mut server, &Caller::root(), file, immutable).unwrap();
        let after = server.getattr(file).unwrap();
        assert_eq!((after.flags, after.change), (immutable, before.change + 1));
        assert_eq!(set(&mut server, &user(1000), file, immutable), Ok(()));
        assert_eq!(
            set(&mut server, &user(1000), file, InodeFlags::empty()),
            Err(DENIED)
        );
        for kept in [
            InodeFlags::ARCHIVED,
            InodeFlags::RELEASED,
            InodeFlags::HAS_ACL,
        ] {
            assert_eq!(
                set(&mut server, &Caller::root(), file, kept),
                Err(Refusal::NotSupported)
            );
        }
        server.assert_clean();
    }

    #[test]
    fn an_immutable_file_stays_as_it_is_whatever_is_open() {
        let mut server = Server::new(2);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o666).unwrap().ino;
        server.write_inline(file, WriteAt::End, b"bytes").unwrap();
        set(&mut server, &root, file, InodeFlags::IMMUTABLE).unwrap();
        let before = server.getattr(file).unwrap();
        let write = Access::WRITE | Access::APPEND;
        let truncate = |by_handle| Op::Truncate {
            ino: file,
            to: 2,
            by_handle,
            kill_privileges: false,
        };
        let kill_privileges = false;
        let begin = Op::BeginWrite {
            ino: file,
            kill_privileges,
        };
        for op in [
            open(file, write, false),
            open(file, Access::READ, true),
            truncate(true),
            truncate(false),
            begin,
            Op::KillPrivileges { ino: file },
        ] {
            assert_eq!(server.ask(&root, &op).map(|_| ()), Err(DENIED), "{op:?}");
        }
        assert_eq!(server.write_inline(file, WriteAt::End, b"x"), Err(DENIED));
        assert_eq!(server.set_xattr(&root, file, "user.a", b"1"), Err(DENIED));
        let now = Some(SetTime::Now);
        let touch = SetAttr {
            atime: now,
            mtime: now,
            ..SetAttr::default()
        };
        assert_eq!(server.setattr(&root, file, touch), Err(DENIED));
        assert_eq!(server.unlink(&root, ROOT, "f"), Err(DENIED));
        assert_eq!(server.link(&root, file, ROOT, "g").map(|_| ()), Err(DENIED));
        let renamed = server.rename(&root, (ROOT, "f"), (ROOT, "g"), RenameHow::Replace);
        assert_eq!(renamed.map(|_| ()), Err(DENIED));
        assert_eq!(server.getattr(file).unwrap(), before);
        // It can be read, and that shows.
        server.ask(&root, &open(file, Access::READ, false)).unwrap();
        let read = SetAttr {
            atime: Some(SetTime::To(Timestamp::new(9, 0))),
            ctime: Some(before.ctime),
            ..SetAttr::default()
        };
        assert_eq!(
            server.setattr(&root, file, read).unwrap().ctime,
            before.ctime
        );
        set(&mut server, &root, file, InodeFlags::empty()).unwrap();
        server.write_inline(file, WriteAt::End, b"x").unwrap();
        server.unlink(&root, ROOT, "f").unwrap();
    }

    #[test]
    fn an_append_only_file_grows_at_its_end_and_nowhere_else() {
        let mut server = Server::new(2);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o666).unwrap().ino;
        server.write_inline(file, WriteAt::End, b"bytes").unwrap();
        set(&mut server, &root, file, InodeFlags::APPEND_ONLY).unwrap();
        let refused =
            |server: &mut Server, op: Op| server.ask(&root, &op).map(|_| ()) == Err(DENIED);
        assert!(refused(&mut server, open(file, Access::WRITE, false)));
        assert!(refused(
            &mut server,
            open(file, Access::WRITE | Access::APPEND, true)
        ));
        assert!(!refused(
            &mut server,
            open(file, Access::WRITE | Access::APPEND, false)
        ));
        assert_eq!(
            server.write_inline(file, WriteAt::Offset(2), b"x"),
            Err(DENIED)
        );
        server.write_inline(file, WriteAt::End, b"x").unwrap();
        let (by_handle, kill_privileges) = (true, false);
        let truncate = Op::Truncate {
            ino: file,
            to: 9,
            by_handle,
            kill_privileges,
        };
        assert!(refused(&mut server, truncate));
        let now = Some(SetTime::Now);
        let touch = SetAttr {
            atime: now,
            mtime: now,
            ..SetAttr::default()
        };
        server.setattr(&root, file, touch).unwrap();
        let old = SetAttr {
            mtime: Some(SetTime::To(Timestamp::new(9, 0))),
            ..SetAttr::default()
        };
        assert_eq!(server.setattr(&root, file, old), Err(DENIED));
        assert_eq!(server.unlink(&root, ROOT, "f"), Err(DENIED));
        server.assert_clean();
    }

    #[test]
    fn a_directory_keeps_its_entries_or_only_gets_more() {
        let mut server = Server::new(2);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
        server.create(&root, dir, "f", 0o644).unwrap();
        set(&mut server, &root, dir, InodeFlags::APPEND_ONLY).unwrap();
        server.create(&root, dir, "g", 0o644).unwrap();
        assert_eq!(server.unlink(&root, dir, "f"), Err(DENIED));
        set(&mut server, &root, dir, InodeFlags::IMMUTABLE).unwrap();
        assert_eq!(
            server.create(&root, dir, "h", 0o644).map(|_| ()),
            Err(DENIED)
        );
        assert_eq!(
            server.mkdir(&root, dir, "h", 0o755).map(|_| ()),
            Err(DENIED)
        );
        assert_eq!(server.unlink(&root, dir, "f"), Err(DENIED));
        let renamed = server.rename(&root, (dir, "f"), (ROOT, "f"), RenameHow::Replace);
        assert_eq!(renamed.map(|_| ()), Err(DENIED));
        assert_eq!(server.rmdir(&root, ROOT, "d").map(|_| ()), Err(DENIED));
        server.assert_clean();
    }
}
