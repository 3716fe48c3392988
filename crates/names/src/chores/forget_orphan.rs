use crate::key::{Key, KeyRange, Kind};
use crate::purge;
use crate::record::{Body, Orphan, Unconfirmed};
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::{InodeId, SessionId};

/// The last use of a file without a name ends: its records go in one batch, with a purge record for its objects. Of an
/// inode that this session does not hold as an orphan nothing changes.
pub(crate) fn forget(view: &mut View, ino: InodeId, session: SessionId) -> Outcome<()> {
    let orphan = Key::orphan(ino, session);
    if view.get::<Orphan>(&orphan)?.is_none() {
        return Ok(());
    }
    view.remove(orphan);
    let Some(inode) = view.find_inode(ino)? else {
        return Ok(());
    };
    if inode.names > 0 || inode.holders > 1 {
        return view.change(ino, |inode| inode.holders -= 1);
    }
    remove_all(view, ino)
}

/// Every record of an inode that nobody holds, in one batch; its objects go later.
pub(crate) fn remove_all(view: &mut View, ino: InodeId) -> Outcome<()> {
    let Some(inode) = view.find_inode(ino)? else {
        return Ok(());
    };
    if inode.xattrs > 0 {
        for (key, _) in view.scan(KeyRange::of_inode(ino, Kind::Xattr), inode.xattrs as usize)? {
            view.remove(key);
        }
    }
    if let Body::File(file) = &inode.body {
        if file.writers > 0 {
            for (key, _) in
                view.scan(KeyRange::of_inode(ino, Kind::Writer), file.writers as usize)?
            {
                view.remove(key);
            }
        }
        let unconfirmed = Key::unconfirmed(ino);
        let had_objects = file.next_generation > 0;
        if had_objects && view.get::<Unconfirmed>(&unconfirmed)?.is_some() {
            view.remove(unconfirmed);
        }
        purge::remove_objects(view, &inode, file.next_generation, file.layout.clone());
    }
    view.remove_inode(&inode);
    Ok(())
}
