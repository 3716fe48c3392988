use crate::driver::OpResult;
use crate::permission;
use crate::requester::RequestingSession;
use crate::steps::{orphan, write_lease};
use crate::view::OpView;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::meta::MetaReplyBody;
use gupfs_proto::{Caller, FileKind, FsError, InodeId};

/// FS_IOC_SETFLAGS: sets or clears the immutable and append-only flags; ctime is updated. Only root may change flags; the owner
/// may set them to their current values. The write lease is revoked first, so that the holder writes its dirty data before.
pub(crate) fn set_flags(
    view: &mut OpView,
    session: &RequestingSession,
    caller: &Caller,
    ino: InodeId,
    flags: InodeFlags,
) -> OpResult<MetaReplyBody> {
    let inode = view.inode(ino)?;
    if !matches!(inode.kind, FileKind::Regular | FileKind::Directory)
        || !InodeFlags::SETTABLE.contains(flags)
    {
        return Err(FsError::NotSupported.into());
    }
    orphan::check_orphan_user(view, session, &inode, false)?;
    if !permission::is_owner_or_root(&inode, caller) {
        return Err(FsError::NotPermitted.into());
    }
    if inode.flags & InodeFlags::SETTABLE == flags {
        return Ok(MetaReplyBody::Attr(inode.attr()));
    }
    if !caller.is_root() {
        return Err(FsError::NotPermitted.into());
    }
    write_lease::require_revoked(view, session, &inode)?;
    let now = view.now();
    let attr = view.change(ino, |inode| {
        inode.touch_ctime(now);
        inode.flags = (inode.flags - InodeFlags::SETTABLE) | flags;
        inode.attr()
    })?;
    Ok(MetaReplyBody::Attr(attr))
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use gupfs_proto::attr::InodeFlags;
    use gupfs_proto::meta::{
        AccessMode, MetaOp, OpenMode, RenameMode, SetAttr, SetTime, WritePosition,
    };
    use gupfs_proto::{Caller, FsError, InodeId, Timestamp};

    const DENIED: FsError = FsError::NotPermitted;

    fn set_flags(
        server: &mut TestServer,
        caller: &Caller,
        ino: InodeId,
        flags: InodeFlags,
    ) -> Result<(), FsError> {
        server
            .request(caller, &MetaOp::SetFlags { ino, flags })
            .map(|_| ())
    }

    fn open(ino: InodeId, access: AccessMode, truncate: bool) -> MetaOp {
        let open = OpenMode {
            access,
            truncate,
            kill_privileges: false,
        };
        MetaOp::Open { ino, open }
    }

    #[test]
    fn only_root_changes_flags_and_the_owner_may_set_their_current_values() {
        let mut server = TestServer::new(2);
        let dir = server.mkdir(&Caller::root(), ROOT, "d", 0o777).unwrap().ino;
        let file = server.create(&user(1000), dir, "f", 0o644).unwrap().ino;
        let immutable = InodeFlags::IMMUTABLE;
        assert_eq!(
            set_flags(&mut server, &user(1000), file, immutable),
            Err(DENIED)
        );
        assert_eq!(
            set_flags(&mut server, &user(1000), file, InodeFlags::empty()),
            Ok(())
        );
        assert_eq!(
            set_flags(&mut server, &user(1001), file, InodeFlags::empty()),
            Err(DENIED)
        );
        let before = server.getattr(file).unwrap();
        set_flags(&mut server, &Caller::root(), file, immutable).unwrap();
        let after = server.getattr(file).unwrap();
        let now = (after.flags & InodeFlags::SETTABLE, after.change);
        assert_eq!(now, (immutable, before.change + 1));
        assert_eq!(set_flags(&mut server, &user(1000), file, immutable), Ok(()));
        assert_eq!(
            set_flags(&mut server, &user(1000), file, InodeFlags::empty()),
            Err(DENIED)
        );
        for not_settable in [
            InodeFlags::ARCHIVED,
            InodeFlags::RELEASED,
            InodeFlags::HAS_ACL,
            InodeFlags::NO_XATTRS,
        ] {
            assert_eq!(
                set_flags(&mut server, &Caller::root(), file, not_settable),
                Err(FsError::NotSupported)
            );
        }
        server.assert_clean();
    }

    fn changes_of_contents(file: InodeId) -> Vec<MetaOp> {
        let write = AccessMode::WRITE | AccessMode::APPEND;
        let truncate = |by_handle| MetaOp::Truncate {
            ino: file,
            to: 2,
            by_handle,
            kill_privileges: false,
        };
        let kill_privileges = false;
        let begin = MetaOp::BeginWrite {
            ino: file,
            kill_privileges,
        };
        vec![
            open(file, write, false),
            open(file, AccessMode::READ, true),
            truncate(true),
            truncate(false),
            begin,
            MetaOp::KillPrivileges { ino: file },
        ]
    }

    #[test]
    fn an_immutable_file_does_not_change_even_through_open_handles() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o666).unwrap().ino;
        server
            .write_inline(file, WritePosition::End, b"bytes")
            .unwrap();
        set_flags(&mut server, &root, file, InodeFlags::IMMUTABLE).unwrap();
        let before = server.getattr(file).unwrap();
        for op in changes_of_contents(file) {
            assert_eq!(
                server.request(&root, &op).map(|_| ()),
                Err(DENIED),
                "{op:?}"
            );
        }
        assert_eq!(
            server.write_inline(file, WritePosition::End, b"x"),
            Err(DENIED)
        );
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
        let renamed = server.rename(&root, (ROOT, "f"), (ROOT, "g"), RenameMode::Replace);
        assert_eq!(renamed.map(|_| ()), Err(DENIED));
        assert_eq!(server.getattr(file).unwrap(), before);
        // It can be read, and its access time changes.
        server
            .request(&root, &open(file, AccessMode::READ, false))
            .unwrap();
        let read = SetAttr {
            atime: Some(SetTime::To(Timestamp::new(9, 0))),
            ctime: Some(before.ctime),
            ..SetAttr::default()
        };
        assert_eq!(
            server.setattr(&root, file, read).unwrap().ctime,
            before.ctime
        );
        set_flags(&mut server, &root, file, InodeFlags::empty()).unwrap();
        server.write_inline(file, WritePosition::End, b"x").unwrap();
        server.unlink(&root, ROOT, "f").unwrap();
    }

    #[test]
    fn an_append_only_file_grows_at_its_end_and_nowhere_else() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o666).unwrap().ino;
        server
            .write_inline(file, WritePosition::End, b"bytes")
            .unwrap();
        set_flags(&mut server, &root, file, InodeFlags::APPEND_ONLY).unwrap();
        let refused = |server: &mut TestServer, op: MetaOp| {
            server.request(&root, &op).map(|_| ()) == Err(DENIED)
        };
        assert!(refused(&mut server, open(file, AccessMode::WRITE, false)));
        assert!(refused(
            &mut server,
            open(file, AccessMode::WRITE | AccessMode::APPEND, true)
        ));
        assert!(!refused(
            &mut server,
            open(file, AccessMode::WRITE | AccessMode::APPEND, false)
        ));
        assert_eq!(
            server.write_inline(file, WritePosition::Offset(2), b"x"),
            Err(DENIED)
        );
        server.write_inline(file, WritePosition::End, b"x").unwrap();
        let (by_handle, kill_privileges) = (true, false);
        let truncate = MetaOp::Truncate {
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
    fn an_immutable_directory_keeps_its_entries_and_an_append_only_one_only_gains_some() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
        server.create(&root, dir, "f", 0o644).unwrap();
        set_flags(&mut server, &root, dir, InodeFlags::APPEND_ONLY).unwrap();
        server.create(&root, dir, "g", 0o644).unwrap();
        assert_eq!(server.unlink(&root, dir, "f"), Err(DENIED));
        set_flags(&mut server, &root, dir, InodeFlags::IMMUTABLE).unwrap();
        assert_eq!(
            server.create(&root, dir, "h", 0o644).map(|_| ()),
            Err(DENIED)
        );
        assert_eq!(
            server.mkdir(&root, dir, "h", 0o755).map(|_| ()),
            Err(DENIED)
        );
        assert_eq!(server.unlink(&root, dir, "f"), Err(DENIED));
        let renamed = server.rename(&root, (dir, "f"), (ROOT, "f"), RenameMode::Replace);
        assert_eq!(renamed.map(|_| ()), Err(DENIED));
        assert_eq!(server.rmdir(&root, ROOT, "d").map(|_| ()), Err(DENIED));
        server.assert_clean();
    }
}
