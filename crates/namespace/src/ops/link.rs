use crate::key::Key;
use crate::record::{Body, Orphan};
use crate::step::Outcome;
use crate::view::View;
use crate::{held, may, place};
use gupfs_proto::limits::LINK_MAX;
use gupfs_proto::meta::Answer;
use gupfs_proto::{InodeId, Name, Refusal};

/// link(2): one more name for a file that is no directory; its ctime and the directory's mtime and ctime are updated. A file
/// made by O_TMPFILE gets its first name this way; one whose names are all gone gets none any more.
pub(crate) fn link(view: &mut View, ino: InodeId, dir: InodeId, name: &Name) -> Outcome<Answer> {
    let (place, parent) = place::find_free(view, dir, name)?;
    let inode = view.inode(ino)?;
    if inode.volume != parent.volume {
        return Err(Refusal::CrossVolume.into());
    }
    if may::is_fixed(&inode) || inode.is_dir() {
        return Err(Refusal::NotPermitted.into());
    }
    let linkable = matches!(&inode.body, Body::File(file) if file.linkable);
    if inode.names == 0 && !linkable {
        return Err(Refusal::NotFound.into());
    }
    held::must_be_known(view, &inode, true)?;
    held::must_have_told(view, &inode)?;
    if inode.names >= LINK_MAX {
        return Err(Refusal::TooManyLinks.into());
    }
    view.must_have_room()?;
    if linkable {
        let orphan = Key::orphan(ino, view.ctx.session);
        let held = view.get::<Orphan>(&orphan)?.is_some();
        view.change_file(ino, |inode, file| {
            file.linkable = false;
            inode.holders -= u32::from(held);
        })?;
        if held {
            view.remove(orphan);
        }
    }
    place::add_name(view, &place, ino)?;
    let now = view.ctx.now;
    let attr = view.change(ino, |inode| {
        inode.touch(now);
        inode.attr()
    })?;
    Ok(Answer::Entry(attr))
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::testing::*;
    use gupfs_proto::limits::LINK_MAX;
    use gupfs_proto::meta::Op;
    use gupfs_proto::{Caller, Refusal};

    #[test]
    fn names_come_and_go_in_any_order_and_the_last_one_takes_the_file() {
        for shards in [1, 2, 64] {
            let mut server = Server::new(shards);
            let root = Caller::root();
            let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
            let file = server.create(&root, ROOT, "a", 0o644).unwrap().ino;
            assert_eq!(server.link(&root, file, dir, "b").unwrap().nlink, 2);
            assert_eq!(server.link(&root, file, ROOT, "c").unwrap().nlink, 3);
            assert_eq!(server.count(Kind::BackLink), 2);
            // The first goes first: what is left are back links.
            assert!(!server.unlink(&root, ROOT, "a").unwrap().orphan);
            server.assert_clean();
            assert_eq!(server.link(&root, file, ROOT, "a2").unwrap().nlink, 3);
            server.assert_clean();
            assert!(!server.unlink(&root, dir, "b").unwrap().orphan);
            assert!(!server.unlink(&root, ROOT, "a2").unwrap().orphan);
            assert!(server.unlink(&root, ROOT, "c").unwrap().orphan);
            assert_eq!(server.count(Kind::BackLink), 0);
            assert_eq!(
                server.link(&root, file, ROOT, "late"),
                Err(Refusal::NotFound)
            );
            server.assert_clean();
        }
    }

    #[test]
    fn a_nameless_file_gets_its_first_name_by_link() {
        let mut server = Server::new(2);
        let root = Caller::root();
        let file = entry(server.ask(
            &root,
            &Op::TmpFile {
                dir: ROOT,
                make: make(0o600),
            },
        ))
        .unwrap();
        assert_eq!((file.nlink, server.count(Kind::Orphan)), (0, 1));
        server.assert_clean();
        assert_eq!(server.link(&root, file.ino, ROOT, "f").unwrap().nlink, 1);
        assert_eq!(server.count(Kind::Orphan), 0);
        server.assert_clean();
        // Its names gone again, it is like any other.
        server.unlink(&root, ROOT, "f").unwrap();
        assert_eq!(
            server.link(&root, file.ino, ROOT, "f"),
            Err(Refusal::NotFound)
        );
        server.forget(file.ino);
        server.assert_clean();
    }

    #[test]
    fn a_directory_has_one_name_and_a_file_not_too_many() {
        let mut server = Server::new(1);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
        assert_eq!(
            server.link(&root, dir, ROOT, "e"),
            Err(Refusal::NotPermitted)
        );
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        server.edit(file, |inode| inode.names = LINK_MAX);
        assert_eq!(
            server.link(&root, file, ROOT, "g"),
            Err(Refusal::TooManyLinks)
        );
    }
}
