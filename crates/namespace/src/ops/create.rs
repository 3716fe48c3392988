use crate::driver::OpResult;
use crate::ops::open;
use crate::permission;
use crate::requester::Requester;
use crate::steps::{dentry, new_inode};
use crate::view::OpView;
use gupfs_proto::meta::{CreateMode, MetaReplyBody, OpenMode};
use gupfs_proto::{FileKind, FsError, InodeId, Name};

/// open(2) with O_CREAT: creates a regular file with the caller as owner, and opens it whatever its mode is. With O_EXCL the name
/// must not exist, without it an existing file is opened as by `open`. A new name updates the directory's mtime and ctime.
pub(crate) fn create(
    view: &mut OpView,
    requester: &Requester,
    dir: InodeId,
    name: &Name,
    create_mode: CreateMode,
    exclusive: bool,
    open_mode: OpenMode,
) -> OpResult<MetaReplyBody> {
    tracing::trace!(target: "walk", file = file!(), "create");
    let dentry = dentry::lookup(view, requester.caller, dir, name)?;
    if let Some(entry) = dentry.entry {
        return match entry.kind {
            _ if exclusive => Err(FsError::Exists.into()),
            FileKind::Regular => {
                dentry::target_inode(view, entry)?;
                open::open(view, requester, entry.ino, open_mode)
            }
            FileKind::Directory => Err(FsError::IsDirectory.into()),
            // The name was created after the client's kernel saw that it does not exist: on `Stale` the kernel looks it up again,
            // and follows or opens the new inode.
            FileKind::Symlink
            | FileKind::Fifo
            | FileKind::Socket
            | FileKind::CharDevice
            | FileKind::BlockDevice => Err(FsError::Stale.into()),
        };
    }
    let parent = view.inode(dir)?;
    permission::check_create(&parent, requester.caller)?;
    view.check_growth_allowed()?;
    let mut inode = new_inode::build(
        view,
        requester.caller,
        &parent,
        FileKind::Regular,
        create_mode,
    )?;
    dentry::add_first_name(view, &dentry, &mut inode)?;
    let opened = inode.open_info(true);
    view.add_inode(inode);
    Ok(MetaReplyBody::Opened(opened))
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use gupfs_proto::meta::{AccessMode, CreateMode, MetaOp, OpenMode, RenameMode};
    use gupfs_proto::{Caller, FileMode, FsError, InodeId, Name};

    fn create(dir: InodeId, name: Name, mode: u32, exclusive: bool, truncate: bool) -> MetaOp {
        let open = OpenMode {
            access: AccessMode::READ | AccessMode::WRITE,
            truncate,
            kill_privileges: false,
        };
        MetaOp::Create {
            dir,
            name,
            create_mode: CreateMode { mode, umask: 0o022 },
            exclusive,
            open,
        }
    }

    #[test]
    fn a_new_file_is_open_whatever_its_mode_says() {
        let mut server = TestServer::new(2);
        let dir = server.mkdir(&Caller::root(), ROOT, "d", 0o777).unwrap().ino;
        let made = opened(server.request(&user(1000), &create(dir, name("f"), 0o466, true, false)))
            .unwrap();
        assert!(made.created && made.inline.as_deref() == Some(b""));
        assert_eq!(
            (made.attr.mode, made.attr.uid, made.attr.nlink),
            (FileMode(0o444), 1000, 1)
        );
        let again = server.request(&user(1000), &create(dir, name("f"), 0o466, true, false));
        assert_eq!(again, Err(FsError::Exists));
        let denied = server.request(&user(1000), &create(dir, name("f"), 0o466, false, false));
        assert_eq!(denied, Err(FsError::Denied));
        server.assert_clean();
    }

    #[test]
    fn an_existing_file_is_opened_and_truncated_if_requested() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        server
            .write_inline(file, gupfs_proto::meta::WritePosition::End, b"bytes")
            .unwrap();
        let kept =
            opened(server.request(&root, &create(ROOT, name("f"), 0o600, false, false))).unwrap();
        assert_eq!(
            (kept.created, kept.inline.as_deref()),
            (false, Some(&b"bytes"[..]))
        );
        let truncated =
            opened(server.request(&root, &create(ROOT, name("f"), 0o600, false, true))).unwrap();
        assert_eq!(
            (truncated.created, truncated.attr.size, truncated.attr.mode),
            (false, 0, FileMode(0o644))
        );
        assert_eq!(
            (truncated.attr.mtime, truncated.attr.ctime),
            (server.now, server.now)
        );
        server.mkdir(&root, ROOT, "d", 0o755).unwrap();
        assert_eq!(
            server.request(&root, &create(ROOT, name("d"), 0o600, false, false)),
            Err(FsError::IsDirectory)
        );
    }

    #[test]
    fn a_create_costs_four_records_and_the_stored_reply() {
        let mut server = TestServer::new(2);
        server.create(&Caller::root(), ROOT, "f", 0o644).unwrap();
        // Entry, directory, inode, usage, reply.
        assert_eq!(server.batch.len(), 5);
        let bytes: usize = server
            .batch
            .iter()
            .map(|(key, value)| key.as_bytes().len() + value.as_ref().map_or(0, |v| v.len()))
            .sum();
        assert!(bytes < 400, "{bytes} bytes for one create");
    }

    #[test]
    fn nothing_can_be_created_in_a_removed_directory() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        server.rmdir(&root, ROOT, "d").unwrap();
        assert_eq!(
            server.create(&root, dir, "x", 0o644),
            Err(FsError::NotFound)
        );
        assert_eq!(server.mkdir(&root, dir, "x", 0o755), Err(FsError::NotFound));
        assert_eq!(server.link(&root, file, dir, "x"), Err(FsError::NotFound));
        assert_eq!(
            server.rename(&root, (ROOT, "f"), (dir, "x"), RenameMode::Replace),
            Err(FsError::NotFound)
        );
        assert_eq!(server.lookup(&root, dir, "x"), Err(FsError::NotFound));
        server.forget(dir);
        assert_eq!(server.create(&root, dir, "x", 0o644), Err(FsError::Stale));
        server.assert_clean();
    }

    #[test]
    fn while_only_the_reserve_is_left_growth_is_refused_and_removal_is_allowed() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let (file, dir) = (
            server.create(&root, ROOT, "f", 0o644).unwrap().ino,
            server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino,
        );
        server.create(&root, ROOT, "g", 0o644).unwrap();
        server.growth_allowed = false;
        let full = Err(FsError::NoSpace);
        assert_eq!(server.create(&root, ROOT, "x", 0o644), full);
        assert_eq!(server.mkdir(&root, ROOT, "x", 0o644), full);
        assert_eq!(server.link(&root, file, ROOT, "x"), full);
        assert_eq!(server.set_xattr(&root, file, "user.a", b"1"), full);
        assert_eq!(
            server.write_inline(file, gupfs_proto::meta::WritePosition::End, b"1"),
            Err(FsError::NoSpace)
        );
        assert_eq!(server.begin_write(file), Err(FsError::NoSpace));
        server.truncate(file, 0).unwrap();
        server
            .rename(&root, (ROOT, "f"), (ROOT, "g"), RenameMode::Replace)
            .unwrap();
        server.unlink(&root, ROOT, "g").unwrap();
        server.rmdir(&root, ROOT, "d").unwrap();
        server.forget(file);
        server.forget(dir);
        server.growth_allowed = true;
        assert_eq!(
            server
                .create(&root, ROOT, "x", 0o644)
                .map(|attr| attr.nlink),
            Ok(1)
        );
        server.assert_clean();
    }
}
