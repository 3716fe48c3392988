//! Objects that nobody needs any more: a record in the batch that lets go of them, and the work for the driver.

use crate::key::{Key, PurgeId};
use crate::record::{Inode, Purge, PurgeWhat};
use crate::step::Work;
use crate::view::View;
use gupfs_proto::{Layout, Presence};

/// Lets go of every object in `layout`. `number` is taken from the inode's counter. Nothing happens if none was ever made.
pub(crate) fn remove_objects(view: &mut View, inode: &Inode, number: u32, layout: Layout) -> bool {
    let id = PurgeId {
        ino: inode.ino,
        number,
    };
    if layout
        .objects(inode.ino)
        .all(|(.., presence)| presence == Presence::Never)
    {
        return false;
    }
    let purge = Purge {
        what: PurgeWhat::Remove,
        layout,
        volume: inode.volume,
        size: inode.size,
    };
    let objects = purge
        .objects(id)
        .into_iter()
        .map(|(ost, object, _)| (ost, object))
        .collect();
    view.put(Key::purge(id), &purge);
    view.count_purges(inode.ino.shard(), inode.volume, 1);
    view.work(Work::Purge { id, objects });
    true
}

/// Cuts every object that may exist to its length in a file that ends at `to`; false if there is none to cut.
pub(crate) fn cut_objects(
    view: &mut View,
    inode: &Inode,
    number: u32,
    layout: &Layout,
    to: u64,
) -> bool {
    let id = PurgeId {
        ino: inode.ino,
        number,
    };
    let purge = Purge {
        what: PurgeWhat::Cut { to },
        layout: layout.clone(),
        volume: inode.volume,
        size: inode.size,
    };
    let objects = purge.objects(id);
    if objects.is_empty() {
        return false;
    }
    view.put(Key::purge(id), &purge);
    view.work(Work::Cut { id, objects });
    true
}
