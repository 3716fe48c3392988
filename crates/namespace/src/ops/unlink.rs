use crate::driver::OpResult;
use crate::permission;
use crate::requester::RequestingSession;
use crate::steps::dentry;
use crate::view::OpView;
use gupfs_proto::meta::{MetaReplyBody, RemovedName};
use gupfs_proto::{Caller, InodeId, Name};

/// unlink(2): removes the name at once; the file is removed with its last name and last open. The directory's mtime and ctime and
/// the file's ctime are updated. In a sticky directory only the owner of the file or of the directory may. Needs no free space.
pub(crate) fn unlink(
    view: &mut OpView,
    session: &RequestingSession,
    caller: &Caller,
    dir: InodeId,
    name: &Name,
) -> OpResult<MetaReplyBody> {
    tracing::trace!(target: "walk", file = file!(), "unlink");
    let dentry = dentry::lookup(view, caller, dir, name)?;
    let victim = dentry::target_inode(view, dentry.entry()?)?;
    let parent = view.inode(dir)?;
    permission::check_remove(&parent, &victim, caller, false)?;
    let orphan = dentry::remove_name(view, session, &dentry, victim.ino)?;
    Ok(MetaReplyBody::Removed(RemovedName {
        victim: Some(victim.ino),
        is_orphan: orphan,
        attr: None,
    }))
}

#[cfg(test)]
mod tests {
    use crate::RecordKind;
    use crate::testing::*;
    use gupfs_proto::meta::RemovedName;
    use gupfs_proto::{Caller, FsError};

    #[test]
    fn an_unlinked_file_stays_until_its_session_forgets_it() {
        let mut server = TestServer::new(64);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        let removed = server.unlink(&root, ROOT, "f").unwrap();
        assert_eq!(
            removed,
            RemovedName {
                victim: Some(file),
                is_orphan: true,
                attr: None
            }
        );
        assert_eq!(server.lookup(&root, ROOT, "f"), Err(FsError::NotFound));
        let attr = server.getattr(file).unwrap();
        assert_eq!((attr.nlink, attr.ctime), (0, attr.ctime.max(attr.mtime)));
        assert_eq!(
            (server.count(RecordKind::Orphan), server.statfs().inodes),
            (1, 2)
        );
        server.forget(file);
        assert_eq!(server.getattr(file), Err(FsError::Stale));
        assert_eq!(
            (
                server.count(RecordKind::Orphan),
                server.count(RecordKind::Inode),
                server.statfs().inodes
            ),
            (0, 1, 1)
        );
        server.assert_clean();
    }

    #[test]
    fn forgetting_an_inode_with_a_name_changes_nothing() {
        let mut server = TestServer::new(1);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.forget(file);
        assert_eq!(server.batch, vec![]);
        assert_eq!(server.getattr(file).unwrap().nlink, 1);
    }

    #[test]
    fn in_a_sticky_directory_only_owners_remove() {
        let mut server = TestServer::new(2);
        let dir = server
            .mkdir(&Caller::root(), ROOT, "tmp", 0o1777)
            .unwrap()
            .ino;
        server.create(&user(1000), dir, "f", 0o666).unwrap();
        assert_eq!(
            server.unlink(&user(1001), dir, "f"),
            Err(FsError::NotPermitted)
        );
        server.unlink(&user(1000), dir, "f").unwrap();
        server.create(&user(1000), dir, "g", 0o666).unwrap();
        server.unlink(&Caller::root(), dir, "g").unwrap();
        // The directory's owner may remove it too.
        let own = gupfs_proto::meta::SetAttr {
            uid: Some(1001),
            ..Default::default()
        };
        server.setattr(&Caller::root(), dir, own).unwrap();
        server.create(&user(1000), dir, "h", 0o666).unwrap();
        server.unlink(&user(1001), dir, "h").unwrap();
    }

    #[test]
    fn immutable_and_append_only_files_keep_their_names() {
        use gupfs_proto::attr::InodeFlags;
        let mut server = TestServer::new(1);
        let root = Caller::root();
        for flag in [InodeFlags::IMMUTABLE, InodeFlags::APPEND_ONLY] {
            let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
            server.edit(file, |inode| inode.flags = flag);
            assert_eq!(server.unlink(&root, ROOT, "f"), Err(FsError::NotPermitted));
            assert_eq!(
                server.link(&root, file, ROOT, "g"),
                Err(FsError::NotPermitted)
            );
            let set = gupfs_proto::meta::SetAttr {
                mode: Some(0),
                ..Default::default()
            };
            assert_eq!(server.setattr(&root, file, set), Err(FsError::NotPermitted));
            server.edit(file, |inode| inode.flags = InodeFlags::empty());
            server.unlink(&root, ROOT, "f").unwrap();
        }
        server.create(&root, ROOT, "f", 0o644).unwrap();
        server.edit(ROOT, |inode| inode.flags = InodeFlags::IMMUTABLE);
        assert_eq!(server.unlink(&root, ROOT, "f"), Err(FsError::NotPermitted));
        assert_eq!(
            server.create(&root, ROOT, "g", 0o644),
            Err(FsError::NotPermitted)
        );
        server.edit(ROOT, |inode| inode.flags = InodeFlags::APPEND_ONLY);
        assert_eq!(server.unlink(&root, ROOT, "f"), Err(FsError::NotPermitted));
        server.create(&root, ROOT, "g", 0o644).unwrap();
    }
}
