use crate::driver::OpResult;
use crate::key::RecordKey;
use crate::permission;
use crate::record::{InodeBody, Orphan};
use crate::requester::RequestingSession;
use crate::steps::{dentry, orphan, write_lease};
use crate::view::OpView;
use gupfs_proto::limits::LINK_MAX;
use gupfs_proto::meta::MetaReplyBody;
use gupfs_proto::{Caller, FsError, InodeId, Name};

/// link(2): adds a name to an inode that is not a directory; its ctime and the directory's mtime and ctime are updated. A file
/// created by O_TMPFILE gets its first name this way; a file that has lost its last name gets no new one.
pub(crate) fn link(
    view: &mut OpView,
    session: &RequestingSession,
    caller: &Caller,
    ino: InodeId,
    dir: InodeId,
    name: &Name,
) -> OpResult<MetaReplyBody> {
    let (dentry, parent) = dentry::lookup_for_create(view, caller, dir, name)?;
    let inode = view.inode(ino)?;
    if inode.volume != parent.volume {
        return Err(FsError::CrossVolume.into());
    }
    if permission::is_immutable_or_append_only(&inode) || inode.is_dir() {
        return Err(FsError::NotPermitted.into());
    }
    let linkable = matches!(&inode.body, InodeBody::File(file) if file.linkable);
    if inode.names == 0 && !linkable {
        return Err(FsError::NotFound.into());
    }
    orphan::check_orphan_user(view, session, &inode, true)?;
    write_lease::require_attr_report(view, session, &inode)?;
    if inode.names >= LINK_MAX {
        return Err(FsError::TooManyLinks.into());
    }
    view.check_growth_allowed()?;
    if linkable {
        let orphan = RecordKey::orphan(ino, session.id);
        let is_own_orphan = view.get::<Orphan>(&orphan)?.is_some();
        view.change_file(ino, |inode, file| {
            file.linkable = false;
            inode.orphan_records -= u32::from(is_own_orphan);
        })?;
        if is_own_orphan {
            view.remove(orphan);
        }
    }
    dentry::add_name(view, &dentry, ino)?;
    let now = view.now();
    let attr = view.change(ino, |inode| {
        inode.touch_ctime(now);
        inode.attr()
    })?;
    Ok(MetaReplyBody::Entry(attr))
}

#[cfg(test)]
mod tests {
    use crate::RecordKind;
    use crate::testing::*;
    use gupfs_proto::limits::LINK_MAX;
    use gupfs_proto::meta::MetaOp;
    use gupfs_proto::{Caller, FsError};

    #[test]
    fn names_are_removed_in_any_order_and_the_last_one_orphans_the_file() {
        for shards in [1, 2, 64] {
            let mut server = TestServer::new(shards);
            let root = Caller::root();
            let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
            let file = server.create(&root, ROOT, "a", 0o644).unwrap().ino;
            assert_eq!(server.link(&root, file, dir, "b").unwrap().nlink, 2);
            assert_eq!(server.link(&root, file, ROOT, "c").unwrap().nlink, 3);
            assert_eq!(server.count(RecordKind::BackLink), 2);
            // The first name is removed first: the remaining names are back links.
            assert!(!server.unlink(&root, ROOT, "a").unwrap().is_orphan);
            server.assert_clean();
            assert_eq!(server.link(&root, file, ROOT, "a2").unwrap().nlink, 3);
            server.assert_clean();
            assert!(!server.unlink(&root, dir, "b").unwrap().is_orphan);
            assert!(!server.unlink(&root, ROOT, "a2").unwrap().is_orphan);
            assert!(server.unlink(&root, ROOT, "c").unwrap().is_orphan);
            assert_eq!(server.count(RecordKind::BackLink), 0);
            assert_eq!(
                server.link(&root, file, ROOT, "late"),
                Err(FsError::NotFound)
            );
            server.assert_clean();
        }
    }

    #[test]
    fn an_unnamed_file_gets_its_first_name_by_link() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let file = entry(server.request(
            &root,
            &MetaOp::TmpFile {
                dir: ROOT,
                create_mode: create_mode(0o600),
            },
        ))
        .unwrap();
        assert_eq!((file.nlink, server.count(RecordKind::Orphan)), (0, 1));
        server.assert_clean();
        assert_eq!(server.link(&root, file.ino, ROOT, "f").unwrap().nlink, 1);
        assert_eq!(server.count(RecordKind::Orphan), 0);
        server.assert_clean();
        // Without names again, it is like any other unlinked file.
        server.unlink(&root, ROOT, "f").unwrap();
        assert_eq!(
            server.link(&root, file.ino, ROOT, "f"),
            Err(FsError::NotFound)
        );
        server.forget(file.ino);
        server.assert_clean();
    }

    #[test]
    fn a_directory_has_one_name_and_a_file_at_most_link_max() {
        let mut server = TestServer::new(1);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
        assert_eq!(
            server.link(&root, dir, ROOT, "e"),
            Err(FsError::NotPermitted)
        );
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        server.edit(file, |inode| inode.names = LINK_MAX);
        assert_eq!(
            server.link(&root, file, ROOT, "g"),
            Err(FsError::TooManyLinks)
        );
    }
}
