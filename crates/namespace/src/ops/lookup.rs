use crate::driver::OpResult;
use crate::requester::RequestingSession;
use crate::steps::{dentry, write_lease};
use crate::view::ReadView;
use gupfs_proto::meta::MetaReplyBody;
use gupfs_proto::{Caller, FsError, InodeId, Name};

/// Resolves one path component: returns the inode that the name refers to. Needs search permission on the directory.
pub(crate) fn lookup(
    view: &mut ReadView,
    session: &RequestingSession,
    caller: &Caller,
    dir: InodeId,
    name: &Name,
) -> OpResult<MetaReplyBody> {
    let dentry = dentry::lookup(view, caller, dir, name)?;
    let inode = dentry::target_inode(view, dentry.entry()?)?;
    write_lease::require_attr_report(view, session, &inode)?;
    Ok(MetaReplyBody::Entry(inode.attr()))
}

/// "..": the parent directory; the root is its own parent. Needs search permission on the directory, like any other name in it,
/// or that the directory is open, because readdir(3) returns its "..", too.
pub(crate) fn lookup_parent(view: &mut ReadView, dir: InodeId) -> OpResult<MetaReplyBody> {
    let inode = view.inode(dir)?;
    inode.directory()?;
    if dir == InodeId::ROOT {
        return Ok(MetaReplyBody::Entry(inode.attr()));
    }
    // A removed directory has no parent.
    let parent = inode.parent.ok_or(FsError::NotFound)?;
    Ok(MetaReplyBody::Entry(view.inode(parent.dir)?.attr()))
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use gupfs_proto::meta::MetaOp;
    use gupfs_proto::{Caller, FsError};

    #[test]
    fn a_lookup_needs_search_permission_and_nothing_more() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o711).unwrap().ino;
        let file = server.create(&root, dir, "f", 0o600).unwrap().ino;
        assert_eq!(server.lookup(&user(1000), dir, "f").unwrap().ino, file);
        assert_eq!(server.lookup(&user(1000), dir, "g"), Err(FsError::NotFound));
        let closed = server.mkdir(&root, ROOT, "e", 0o766).unwrap().ino;
        assert_eq!(
            server.lookup(&user(1000), closed, "g"),
            Err(FsError::Denied)
        );
        assert_eq!(server.lookup(&root, file, "g"), Err(FsError::NotDirectory));
    }

    #[test]
    fn a_lookup_on_a_cold_cache_takes_three_fetches() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        server.create(&root, ROOT, "f", 0o644).unwrap();
        server.cold_cache = true;
        server.lookup(&root, ROOT, "f").unwrap();
        // Directory, then entry, then inode: three fetches, then the reply.
        assert_eq!(server.attempts, 4);
    }

    #[test]
    fn dotdot_is_the_parent_until_the_directory_is_removed() {
        let mut server = TestServer::new(64);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
        let below = server.mkdir(&root, dir, "e", 0o755).unwrap().ino;
        let up = |server: &mut TestServer, dir| {
            entry(server.request(&root, &MetaOp::LookupParent { dir })).map(|attr| attr.ino)
        };
        assert_eq!(up(&mut server, below), Ok(dir));
        assert_eq!(up(&mut server, ROOT), Ok(ROOT));
        server.rmdir(&Caller::root(), dir, "e").unwrap();
        assert_eq!(up(&mut server, below), Err(FsError::NotFound));
    }
}
