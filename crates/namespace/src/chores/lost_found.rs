use crate::key::{Key, KeyRange, Kind};
use crate::newborn;
use crate::place::{self, Place};
use crate::record::Inode;
use crate::salvage;
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::limits::LINK_MAX;
use gupfs_proto::{InodeId, Name};

/// The inode of `/lost+found`, unless there is a directory of that name: of the numbers that are kept for the system.
const LOST_FOUND: InodeId = InodeId(2);

/// The second is for a root where the first is no directory.
const NAMES: [&str; 2] = ["lost+found", "lost+found.gupfs"];

/// What no name leads to gets its number as name in `/lost+found`, which is root's alone.
pub(crate) fn name_in_lost_found(view: &mut View, ino: InodeId) -> Outcome<()> {
    let dir = lost_found(view)?;
    let name = Name::new(format!("{:x}", ino.0).as_bytes())?;
    let place: Place = place::find(view, dir, &name)?;
    place.must_be_free()?;
    for (key, _) in view.scan(KeyRange::of_inode(ino, Kind::BackLink), LINK_MAX as usize)? {
        view.remove(key);
    }
    view.change(ino, |inode| {
        inode.names = 0;
        inode.parent = None;
    })?;
    place::add_name(view, &place, ino)
}

/// The directory, made if it is not there.
fn lost_found(view: &mut View) -> Outcome<InodeId> {
    for text in NAMES {
        let name = Name::new(text.as_bytes())?;
        let place = place::find(view, InodeId::ROOT, &name)?;
        let Some(entry) = place.entry else {
            return make(view, &place);
        };
        let is_dir = |inode: &Inode| inode.is_dir();
        if view
            .find_inode(entry.ino)?
            .is_some_and(|inode| is_dir(&inode))
        {
            return Ok(entry.ino);
        }
    }
    Ok(InodeId::ROOT)
}

fn make(view: &mut View, place: &Place) -> Outcome<InodeId> {
    if view.get::<Inode>(&Key::inode(LOST_FOUND))?.is_some() {
        // It has another name: what is in it stays where people may have moved it.
        return Ok(LOST_FOUND);
    }
    let salt = view.ctx.entropy;
    let mut inode = salvage::directory(LOST_FOUND, view.ctx.now, salt);
    debug_assert_eq!(
        inode.ino.shard(),
        newborn::root(view.ctx.now, salt).ino.shard()
    );
    place::add_first(view, place, &mut inode)?;
    view.add_inode(inode);
    Ok(LOST_FOUND)
}
