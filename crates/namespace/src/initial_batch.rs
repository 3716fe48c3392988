//! The first batch of a new cluster: it makes an empty store a file system.

use crate::driver::RecordBatch;
use crate::hash;
use crate::inode_numbers::FIRST_INODE_COUNTER;
use crate::key::RecordKey;
use crate::record::{DirectoryBody, Inode, InodeBody, InodeCounter, Record, StoreFormat, Usage};
use gupfs_proto::{
    ClusterId, FileKind, FileMode, Incarnation, InodeId, Timestamp, VirtualShard, VirtualShards,
    VolumeId,
};

/// The batch that `gupfs up` writes into an empty store: the format record, the root directory (root:root, 0755), and the
/// counters of all shards. The root directory's salt is derived from `entropy`.
pub fn initial_batch(
    cluster: ClusterId,
    incarnation: Incarnation,
    shards: VirtualShards,
    now: Timestamp,
    entropy: u64,
) -> RecordBatch {
    let root = root_directory(now, entropy);
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

/// The root directory of a new cluster.
pub(crate) fn root_directory(now: Timestamp, entropy: u64) -> Inode {
    let body = InodeBody::Directory(DirectoryBody {
        salt: hash::random_salt(entropy),
        ..DirectoryBody::default()
    });
    Inode {
        // The root has no entry; its count is 1 so that it does not count as removed.
        names: 1,
        ..Inode::new(
            InodeId::ROOT,
            FileKind::Directory,
            FileMode(0o755),
            body,
            now,
        )
    }
}
