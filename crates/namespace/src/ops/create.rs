use crate::step::Outcome;
use crate::view::View;
use crate::{may, newborn, ops, place};
use gupfs_proto::meta::{Answer, Make, OpenHow};
use gupfs_proto::{FileKind, InodeId, Name, Refusal};

/// open(2) with O_CREAT: a regular file with the caller as owner, open whatever its mode says; with O_EXCL the name must be
/// free, without it an existing file is opened as by `open`. A new name updates the directory's mtime and ctime.
pub(crate) fn create(
    view: &mut View,
    dir: InodeId,
    name: &Name,
    make: Make,
    exclusive: bool,
    how: OpenHow,
) -> Outcome<Answer> {
    let place = place::find(view, dir, name)?;
    if let Some(entry) = place.entry {
        return match entry.kind {
            _ if exclusive => Err(Refusal::Exists.into()),
            FileKind::Regular => {
                place::target(view, entry)?;
                ops::open::open(view, entry.ino, how)
            }
            FileKind::Directory => Err(Refusal::IsDirectory.into()),
            // Made since the asking kernel saw the name free: it looks again and follows or opens what is there now.
            FileKind::Symlink
            | FileKind::Fifo
            | FileKind::Socket
            | FileKind::CharDevice
            | FileKind::BlockDevice => Err(Refusal::Stale.into()),
        };
    }
    let parent = view.inode(dir)?;
    may::create_in(&parent, view.ctx.caller)?;
    view.must_have_room()?;
    let mut inode = newborn::inode(view, &parent, FileKind::Regular, make)?;
    place::add_first(view, &place, &mut inode)?;
    let opened = ops::opened(&inode, true);
    view.add_inode(inode);
    Ok(Answer::Opened(opened))
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use gupfs_proto::meta::{Access, Make, Op, OpenHow, RenameHow};
    use gupfs_proto::{Caller, InodeId, Mode, Name, Refusal};

    fn create(dir: InodeId, name: Name, mode: u32, exclusive: bool, truncate: bool) -> Op {
        let open = OpenHow {
            access: Access::READ | Access::WRITE,
            truncate,
            kill_privileges: false,
        };
        Op::Create {
            dir,
            name,
            make: Make { mode, umask: 0o022 },
            exclusive,
            open,
        }
    }

    #[test]
    fn a_new_file_is_open_whatever_its_mode_says() {
        let mut server = Server::new(2);
        let dir = server.mkdir(&Caller::root(), ROOT, "d", 0o777).unwrap().ino;
        let made =
            opened(server.ask(&user(1000), &create(dir, name("f"), 0o466, true, false))).unwrap();
        assert!(made.created && made.inline.as_deref() == Some(b""));
        assert_eq!(
            (made.attr.mode, made.attr.uid, made.attr.nlink),
            (Mode(0o444), 1000, 1)
        );
        let again = server.ask(&user(1000), &create(dir, name("f"), 0o466, true, false));
        assert_eq!(again, Err(Refusal::Exists));
        let now_denied = server.ask(&user(1000), &create(dir, name("f"), 0o466, false, false));
        assert_eq!(now_denied, Err(Refusal::Denied));
        server.assert_clean();
    }

    #[test]
    fn an_existing_file_is_opened_and_cut_if_asked() {
        let mut server = Server::new(2);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        server
            .write_inline(file, gupfs_proto::meta::WriteAt::End, b"bytes")
            .unwrap();
        let kept =
            opened(server.ask(&root, &create(ROOT, name("f"), 0o600, false, false))).unwrap();
        assert_eq!(
            (kept.created, kept.inline.as_deref()),
            (false, Some(&b"bytes"[..]))
        );
        let cut = opened(server.ask(&root, &create(ROOT, name("f"), 0o600, false, true))).unwrap();
        assert_eq!(
            (cut.created, cut.attr.size, cut.attr.mode),
            (false, 0, Mode(0o644))
        );
        assert_eq!((cut.attr.mtime, cut.attr.ctime), (server.now, server.now));
        server.mkdir(&root, ROOT, "d", 0o755).unwrap();
        assert_eq!(
            server.ask(&root, &create(ROOT, name("d"), 0o600, false, false)),
            Err(Refusal::IsDirectory)
        );
    }

    #[test]
    fn a_create_costs_four_records_and_the_stored_reply() {
        let mut server = Server::new(2);
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
    fn in_a_removed_directory_nothing_is_made() {
        let mut server = Server::new(2);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        server.rmdir(&root, ROOT, "d").unwrap();
        assert_eq!(
            server.create(&root, dir, "x", 0o644),
            Err(Refusal::NotFound)
        );
        assert_eq!(server.mkdir(&root, dir, "x", 0o755), Err(Refusal::NotFound));
        assert_eq!(server.link(&root, file, dir, "x"), Err(Refusal::NotFound));
        assert_eq!(
            server.rename(&root, (ROOT, "f"), (dir, "x"), RenameHow::Replace),
            Err(Refusal::NotFound)
        );
        assert_eq!(server.lookup(&root, dir, "x"), Err(Refusal::NotFound));
        server.forget(dir);
        assert_eq!(server.create(&root, dir, "x", 0o644), Err(Refusal::Stale));
        server.assert_clean();
    }

    #[test]
    fn while_only_the_reserve_is_left_nothing_grows_and_everything_can_go() {
        let mut server = Server::new(2);
        let root = Caller::root();
        let (file, dir) = (
            server.create(&root, ROOT, "f", 0o644).unwrap().ino,
            server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino,
        );
        server.create(&root, ROOT, "g", 0o644).unwrap();
        server.growth_allowed = false;
        let full = Err(Refusal::NoSpace);
        assert_eq!(server.create(&root, ROOT, "x", 0o644), full);
        assert_eq!(server.mkdir(&root, ROOT, "x", 0o644), full);
        assert_eq!(server.link(&root, file, ROOT, "x"), full);
        assert_eq!(server.set_xattr(&root, file, "user.a", b"1"), full);
        assert_eq!(
            server.write_inline(file, gupfs_proto::meta::WriteAt::End, b"1"),
            Err(Refusal::NoSpace)
        );
        assert_eq!(server.begin_write(file), Err(Refusal::NoSpace));
        server.truncate(file, 0).unwrap();
        server
            .rename(&root, (ROOT, "f"), (ROOT, "g"), RenameHow::Replace)
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
