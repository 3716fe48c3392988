use crate::step::Outcome;
use crate::view::View;
use crate::{held, place};
use gupfs_proto::meta::Answer;
use gupfs_proto::{InodeId, Name, Refusal};

/// Path resolution, one component: what the name refers to. Needs search permission on the directory.
pub(crate) fn lookup(view: &mut View, dir: InodeId, name: &Name) -> Outcome<Answer> {
    let place = place::find(view, dir, name)?;
    let inode = place::target(view, place.entry()?)?;
    held::must_have_told(view, &inode)?;
    Ok(Answer::Entry(inode.attr()))
}

/// "..": the directory above; the root is above itself. Needs search permission on the directory, like any
/// other name in it, or that the directory is open: readdir(3) tells it, too.
pub(crate) fn lookup_parent(view: &mut View, dir: InodeId) -> Outcome<Answer> {
    let inode = view.inode(dir)?;
    inode.directory()?;
    if dir == InodeId::ROOT {
        return Ok(Answer::Entry(inode.attr()));
    }
    // A removed directory has nothing above it.
    let parent = inode.parent.ok_or(Refusal::NotFound)?;
    Ok(Answer::Entry(view.inode(parent.dir)?.attr()))
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use gupfs_proto::meta::Op;
    use gupfs_proto::{Caller, Refusal};

    #[test]
    fn the_way_needs_search_permission_and_nothing_more() {
        let mut server = Server::new(2);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o711).unwrap().ino;
        let file = server.create(&root, dir, "f", 0o600).unwrap().ino;
        assert_eq!(server.lookup(&user(1000), dir, "f").unwrap().ino, file);
        assert_eq!(server.lookup(&user(1000), dir, "g"), Err(Refusal::NotFound));
        let closed = server.mkdir(&root, ROOT, "e", 0o766).unwrap().ino;
        assert_eq!(
            server.lookup(&user(1000), closed, "g"),
            Err(Refusal::Denied)
        );
        assert_eq!(server.lookup(&root, file, "g"), Err(Refusal::NotDirectory));
    }

    #[test]
    fn a_lookup_is_two_trips_to_a_cold_store() {
        let mut server = Server::new(2);
        let root = Caller::root();
        server.create(&root, ROOT, "f", 0o644).unwrap();
        server.forgetful = true;
        server.lookup(&root, ROOT, "f").unwrap();
        // Directory, then entry, then inode: three trips and the answer.
        assert_eq!(server.attempts, 4);
    }

    #[test]
    fn dotdot_leads_up_until_the_directory_is_removed() {
        let mut server = Server::new(64);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
        let below = server.mkdir(&root, dir, "e", 0o755).unwrap().ino;
        let up = |server: &mut Server, dir| {
            entry(server.ask(&root, &Op::LookupParent { dir })).map(|attr| attr.ino)
        };
        assert_eq!(up(&mut server, below), Ok(dir));
        assert_eq!(up(&mut server, ROOT), Ok(ROOT));
        server.rmdir(&Caller::root(), dir, "e").unwrap();
        assert_eq!(up(&mut server, below), Err(Refusal::NotFound));
    }
}
