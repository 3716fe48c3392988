use crate::step::Outcome;
use crate::view::View;
use crate::{may, place};
use gupfs_proto::meta::{Answer, Removed};
use gupfs_proto::{InodeId, Name};

/// unlink(2): the name goes at once; the file goes with its last name and last user. The directory's mtime and ctime and
/// the file's ctime are updated. In a sticky directory only owner of file or directory may. Needs no space.
pub(crate) fn unlink(view: &mut View, dir: InodeId, name: &Name) -> Outcome<Answer> {
    let place = place::find(view, dir, name)?;
    let victim = place::target(view, place.entry()?)?;
    let parent = view.inode(dir)?;
    may::remove_from(&parent, &victim, view.ctx.caller, false)?;
    let orphan = place::remove_name(view, &place, victim.ino)?;
    Ok(Answer::Removed(Removed {
        victim: Some(victim.ino),
        orphan,
        attr: None,
    }))
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::testing::*;
    use gupfs_proto::meta::Removed;
    use gupfs_proto::{Caller, Refusal};

    #[test]
    fn a_file_stays_with_its_users_and_goes_when_it_is_forgotten() {
        let mut server = Server::new(64);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        let gone = server.unlink(&root, ROOT, "f").unwrap();
        assert_eq!(
            gone,
            Removed {
                victim: Some(file),
                orphan: true,
                attr: None
            }
        );
        assert_eq!(server.lookup(&root, ROOT, "f"), Err(Refusal::NotFound));
        let held = server.getattr(file).unwrap();
        assert_eq!((held.nlink, held.ctime), (0, held.ctime.max(held.mtime)));
        assert_eq!((server.count(Kind::Orphan), server.statfs().inodes), (1, 2));
        server.forget(file);
        assert_eq!(server.getattr(file), Err(Refusal::Stale));
        assert_eq!(
            (
                server.count(Kind::Orphan),
                server.count(Kind::Inode),
                server.statfs().inodes
            ),
            (0, 1, 1)
        );
        server.assert_clean();
    }

    #[test]
    fn forgetting_what_still_has_a_name_changes_nothing() {
        let mut server = Server::new(1);
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
        let mut server = Server::new(2);
        let dir = server
            .mkdir(&Caller::root(), ROOT, "tmp", 0o1777)
            .unwrap()
            .ino;
        server.create(&user(1000), dir, "f", 0o666).unwrap();
        assert_eq!(
            server.unlink(&user(1001), dir, "f"),
            Err(Refusal::NotPermitted)
        );
        server.unlink(&user(1000), dir, "f").unwrap();
        server.create(&user(1000), dir, "g", 0o666).unwrap();
        server.unlink(&Caller::root(), dir, "g").unwrap();
        // The directory's owner may too.
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
        let mut server = Server::new(1);
        let root = Caller::root();
        for flag in [InodeFlags::IMMUTABLE, InodeFlags::APPEND_ONLY] {
            let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
            server.edit(file, |inode| inode.flags = flag);
            assert_eq!(server.unlink(&root, ROOT, "f"), Err(Refusal::NotPermitted));
            assert_eq!(
                server.link(&root, file, ROOT, "g"),
                Err(Refusal::NotPermitted)
            );
            let set = gupfs_proto::meta::SetAttr {
                mode: Some(0),
                ..Default::default()
            };
            assert_eq!(server.setattr(&root, file, set), Err(Refusal::NotPermitted));
            server.edit(file, |inode| inode.flags = InodeFlags::empty());
            server.unlink(&root, ROOT, "f").unwrap();
        }
        server.create(&root, ROOT, "f", 0o644).unwrap();
        server.edit(ROOT, |inode| inode.flags = InodeFlags::IMMUTABLE);
        assert_eq!(server.unlink(&root, ROOT, "f"), Err(Refusal::NotPermitted));
        assert_eq!(
            server.create(&root, ROOT, "g", 0o644),
            Err(Refusal::NotPermitted)
        );
        server.edit(ROOT, |inode| inode.flags = InodeFlags::APPEND_ONLY);
        assert_eq!(server.unlink(&root, ROOT, "f"), Err(Refusal::NotPermitted));
        server.create(&root, ROOT, "g", 0o644).unwrap();
    }
}
