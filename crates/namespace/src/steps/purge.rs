//! Removal and truncation of objects: a `P` record in the batch that stops using their bytes, and the follow-up for the driver.

use crate::driver::FollowUp;
use crate::key::{PurgeId, RecordKey};
use crate::record::{Inode, Purge, PurgeAction};
use crate::view::OpView;
use gupfs_proto::{Layout, Presence};

/// Records every object in `layout` for removal. `number` is taken from the inode's counter. Returns false, and changes nothing,
/// if no object was ever created.
pub(crate) fn remove_objects(
    view: &mut OpView,
    inode: &Inode,
    number: u32,
    layout: Layout,
) -> bool {
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
        action: PurgeAction::Remove,
        layout,
        volume: inode.volume,
        size: inode.size,
    };
    let objects = purge
        .objects(id)
        .into_iter()
        .map(|(ost, object, _)| (ost, object))
        .collect();
    view.put(RecordKey::purge(id), &purge);
    view.adjust_purge_count(inode.ino.shard(), inode.volume, 1);
    view.add_follow_up(FollowUp::Purge { id, objects });
    true
}

/// Records a truncate of every object that may exist to its length in a file that ends at `to`; false if there is no such object.
pub(crate) fn truncate_objects(
    view: &mut OpView,
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
        action: PurgeAction::Truncate { to },
        layout: layout.clone(),
        volume: inode.volume,
        size: inode.size,
    };
    let objects = purge.objects(id);
    if objects.is_empty() {
        return false;
    }
    view.put(RecordKey::purge(id), &purge);
    view.add_follow_up(FollowUp::Truncate { id, objects });
    true
}
