use crate::driver::OpResult;
use crate::steps::{dentry, new_inode};
use crate::view::OpView;
use gupfs_proto::meta::{CreateMode, MetaReplyBody};
use gupfs_proto::{Caller, FileKind, InodeId, Name};

/// mkdir(2): creates an empty directory. The parent gains a link (the ".." of the new directory), and its mtime and ctime are
/// updated. In a setgid directory the new directory gets the parent's group and the setgid bit.
pub(crate) fn mkdir(
    view: &mut OpView,
    caller: &Caller,
    dir: InodeId,
    name: &Name,
    create_mode: CreateMode,
) -> OpResult<MetaReplyBody> {
    let (dentry, parent) = dentry::lookup_for_create(view, caller, dir, name)?;
    view.check_growth_allowed()?;
    let mut inode = new_inode::build(view, caller, &parent, FileKind::Directory, create_mode)?;
    dentry::add_first_name(view, &dentry, &mut inode)?;
    let attr = inode.attr();
    view.add_inode(inode);
    Ok(MetaReplyBody::Entry(attr))
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use gupfs_proto::{Caller, FileMode, FsError};

    #[test]
    fn a_new_directory_is_linked_twice_and_its_parent_once_more() {
        for shards in [1, 2, 64] {
            let mut server = TestServer::new(shards);
            let root = Caller::root();
            let made = server.mkdir(&root, ROOT, "d", 0o755).unwrap();
            assert_eq!((made.nlink, made.mode), (2, FileMode(0o755)));
            let above = server.getattr(ROOT).unwrap();
            assert_eq!(
                (above.nlink, above.mtime, above.ctime),
                (3, made.ctime, made.ctime)
            );
            assert_eq!(server.mkdir(&root, ROOT, "d", 0o755), Err(FsError::Exists));
            server.assert_clean();
        }
    }

    #[test]
    fn directories_spread_over_the_shards_and_their_files_stay_with_them() {
        let mut server = TestServer::new(64);
        let root = Caller::root();
        let mut shards = std::collections::BTreeSet::new();
        for i in 0..200 {
            let dir = server
                .mkdir(&root, ROOT, &format!("d{i}"), 0o755)
                .unwrap()
                .ino;
            let file = server.create(&root, dir, "f", 0o644).unwrap().ino;
            assert_eq!(file.shard(), dir.shard());
            shards.insert(dir.shard());
        }
        assert!(shards.len() > 50, "only {} shards used", shards.len());
        server.assert_clean();
    }

    /// A listing that began before the power loss continues with its cookies.
    #[test]
    fn a_directorys_salt_does_not_depend_on_the_attempt() {
        let salt = |attempts: usize| {
            let mut server = TestServer::new(1);
            for _ in 0..attempts {
                let refused = server.mkdir(&user(1000), ROOT, "d", 0o755);
                assert_eq!(refused, Err(FsError::Denied));
            }
            let made = server.mkdir(&Caller::root(), ROOT, "d", 0o755).unwrap();
            server.directory(made.ino).salt
        };
        assert_eq!(salt(0), salt(1));
    }

    #[test]
    fn a_setgid_directory_passes_on_its_group_and_the_bit() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o777).unwrap().ino;
        let set = gupfs_proto::meta::SetAttr {
            mode: Some(0o2777),
            gid: Some(50),
            ..Default::default()
        };
        server.setattr(&root, dir, set).unwrap();
        let below = server.mkdir(&user(1000), dir, "e", 0o6755).unwrap();
        assert_eq!(
            (below.gid, below.uid, below.mode),
            (50, 1000, FileMode(0o2755))
        );
        // The caller is not in group 50, so the file does not get setgid.
        let file = server.create(&user(1000), dir, "f", 0o2775).unwrap();
        assert_eq!((file.gid, file.mode), (50, FileMode(0o775)));
        let member = Caller::new(1000, 1000, [50]);
        assert_eq!(
            server.create(&member, dir, "g", 0o2775).unwrap().mode,
            FileMode(0o2775)
        );
        let elsewhere = server.mkdir(&user(1000), ROOT, "x", 0o755);
        assert_eq!(elsewhere, Err(FsError::Denied));
    }
}
