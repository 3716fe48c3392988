use crate::driver::{FollowUp, OpResult};
use crate::key::RecordKey;
use crate::record::InodeCounter;
use crate::view::OpView;
use gupfs_proto::limits::INODE_BLOCK;
use gupfs_proto::{FsError, VirtualShard};

/// Reserves the next `INODE_BLOCK` inode counters of a shard. They are used only after this record is durable, so a power loss
/// can skip numbers but never cause one to be used twice.
pub(crate) fn reserve_inode_numbers(view: &mut OpView, shard: VirtualShard) -> OpResult<()> {
    let key = RecordKey::inode_counter(shard);
    let Some(InodeCounter { next }) = view.get(&key)? else {
        return Err(FsError::StoreFailed(format!(
            "virtual shard {shard} has no inode counter record: run gupfs check"
        ))
        .into());
    };
    let after = next + INODE_BLOCK;
    view.put(key, &InodeCounter { next: after });
    view.add_follow_up(FollowUp::InodeNumbers {
        shard,
        counters: next..after,
    });
    Ok(())
}
