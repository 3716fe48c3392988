//! The first batch of a new cluster: what makes an empty store a file system.

use crate::driver::RecordBatch;
use crate::key::RecordKey;
use crate::new_inode;
use crate::record::{InodeCounter, Record, StoreFormat, Usage};
use gupfs_proto::{ClusterId, Incarnation, Timestamp, VirtualShard, VirtualShards, VolumeId};

/// Inode counters below this are reserved for inodes that the system creates itself; the root is 1.
pub(crate) const FIRST_INODE_COUNTER: u64 = 256;

/// What `gupfs up` writes into an empty store: the format record, the root directory (root:root, 0755), and the counters of all
/// shards. The root directory's salt is derived from `entropy`.
pub fn initial_batch(
    cluster: ClusterId,
    incarnation: Incarnation,
    shards: VirtualShards,
    now: Timestamp,
    entropy: u64,
) -> RecordBatch {
    let root = new_inode::build_root(now, entropy);
    let format = StoreFormat {
        reader: StoreFormat::CURRENT,
        writer: StoreFormat::CURRENT,
        features: 0,
        cluster,
        incarnation,
        shards,
    };
    let mut batch: RecordBatch = vec![
        (RecordKey::format(), Some(format.encode())),
        (RecordKey::inode(root.ino), Some(root.encode())),
    ];
    for shard in (0..shards.0).map(VirtualShard) {
        let usage = Usage {
            inodes: u64::from(shard == root.ino.shard()),
            purging: 0,
        };
        batch.push((
            RecordKey::inode_counter(shard),
            Some(
                InodeCounter {
                    next: FIRST_INODE_COUNTER,
                }
                .encode(),
            ),
        ));
        batch.push((RecordKey::usage(shard, VolumeId(0)), Some(usage.encode())));
    }
    batch.sort();
    batch
}
