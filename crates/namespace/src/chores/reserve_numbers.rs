use crate::key::Key;
use crate::record::Numbers;
use crate::step::{Outcome, Work};
use crate::view::View;
use gupfs_proto::limits::INODE_BLOCK;
use gupfs_proto::{Refusal, VirtualShard};

/// The next `INODE_BLOCK` counters of a shard. They are used only once this record is durable, so a power cut can lose
/// numbers but never give one twice.
pub(crate) fn reserve_numbers(view: &mut View, shard: VirtualShard) -> Outcome<()> {
    let key = Key::numbers(shard);
    let Some(Numbers { next }) = view.get(&key)? else {
        return Err(Refusal::StoreFailed(format!(
            "virtual shard {shard} has no record of its inode numbers"
        ))
        .into());
    };
    let after = next + INODE_BLOCK;
    view.put(key, &Numbers { next: after });
    view.work(Work::Numbers {
        shard,
        counters: next..after,
    });
    Ok(())
}
