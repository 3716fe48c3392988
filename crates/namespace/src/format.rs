//! The first batch of a new cluster.

use crate::key::Key;
use crate::newborn;
use crate::record::{Format, Numbers, Record, Usage};
use crate::step::Batch;
use gupfs_proto::{ClusterId, Incarnation, Timestamp, VirtualShard, VirtualShards, VolumeId};

/// Inode counters below are kept for inodes that the system makes itself; the root is 1.
pub(crate) const FIRST_NUMBER: u64 = 256;

/// What `gupfs up` writes into an empty store: the format, the root directory (root:root, 0755), the counters of all
/// shards. `entropy` becomes the root directory's salt.
pub fn format(
    cluster: ClusterId,
    incarnation: Incarnation,
    shards: VirtualShards,
    now: Timestamp,
    entropy: u64,
) -> Batch {
    let root = newborn::root(now, entropy);
    let format = Format {
        reader: Format::CURRENT,
        writer: Format::CURRENT,
        features: 0,
        cluster,
        incarnation,
        shards,
    };
    let mut batch: Batch = vec![
        (Key::format(), Some(format.encode())),
        (Key::inode(root.ino), Some(root.encode())),
    ];
    for shard in (0..shards.0).map(VirtualShard) {
        let usage = Usage {
            inodes: u64::from(shard == root.ino.shard()),
            purging: 0,
        };
        batch.push((
            Key::numbers(shard),
            Some(Numbers { next: FIRST_NUMBER }.encode()),
        ));
        batch.push((Key::usage(shard, VolumeId(0)), Some(usage.encode())));
    }
    batch.sort();
    batch
}
