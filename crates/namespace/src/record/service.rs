//! Records of the shard itself: `F` format, `G` targets, `K` ended lives, `N` inode numbers, `Q` accepted losses, `U` usage.

use super::{Record, Undecodable, V1, decode_body, encode_body, first_version};
use bytes::Bytes;
use gupfs_proto::{ClusterId, Incarnation, OstLife, OwnerEpoch, Timestamp, VirtualShards};
use serde::{Deserialize, Serialize};

/// `F`: what a program must know to read and write this store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Format {
    /// Oldest program generation that reads, and that writes, these records.
    pub reader: u32,
    pub writer: u32,
    /// Features in use; a bit a program does not know refuses it.
    pub features: u64,
    pub cluster: ClusterId,
    pub incarnation: Incarnation,
    pub shards: VirtualShards,
}

impl Format {
    /// What this program writes and the newest it reads.
    pub const CURRENT: u32 = 1;
    /// A loss was accepted: owner epochs are not the log's alone (`Q`).
    pub const LOSS_ACCEPTED: u64 = 1;
    /// Feature bits this program knows.
    pub const FEATURES: u64 = Format::LOSS_ACCEPTED;

    /// Why this program must leave the store alone, if it must.
    pub fn refusal(&self) -> Option<String> {
        if self.reader > Format::CURRENT || self.writer > Format::CURRENT {
            return Some(format!(
                "the store wants a program of format {} or newer, this one has {}",
                self.reader.max(self.writer),
                Format::CURRENT
            ));
        }
        let unknown = self.features & !Format::FEATURES;
        (unknown != 0)
            .then(|| format!("the store uses features this program does not know: {unknown:#x}"))
    }
}

/// `N`: inode counters of the shard below `next` are reserved or used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Numbers {
    pub next: u64,
}

/// `U vol who`: what lies in this shard. One small record more in each batch that makes or ends an inode; in return
/// statfs and a start read one record a shard instead of all inodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    pub inodes: u64,
    /// `P` records that remove objects: space not given back yet.
    pub purging: u64,
}

/// `G`: who a target was when it last said so, and what it was told. The metadata server's; no operation reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KnownTarget {
    pub incarnation: Incarnation,
    /// Rises while the target serves.
    pub stamp: u64,
    /// Made at random at each opening of the target: tells a copy from the target that reached this stamp.
    pub run: u64,
    /// The opening that was told to write itself down and has not said yet that it did; 0: none.
    pub adopting: u64,
    /// The newest start of the metadata server that the target may have heard of. A target that knows a newer one has served
    /// a later state of this store.
    pub owner: OwnerEpoch,
    pub owner_run: u64,
}

/// `K`: the last life of a target that ended because a sync failed. The metadata server's; no operation reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EndedLife {
    pub incarnation: Incarnation,
    /// This one and those before it.
    pub upto: OstLife,
}

const TARGET_VERSION: u8 = 2;

/// `G` before owners were told to targets.
#[derive(Serialize, Deserialize)]
struct KnownTargetV1 {
    incarnation: Incarnation,
    stamp: u64,
    run: u64,
}

impl Record for KnownTarget {
    fn encode(&self) -> Bytes {
        encode_body(TARGET_VERSION, self)
    }

    fn decode(value: &Bytes) -> Result<KnownTarget, Undecodable> {
        if value.first() != Some(&V1) {
            return decode_body(TARGET_VERSION, value);
        }
        let old: KnownTargetV1 = decode_body(V1, value)?;
        Ok(KnownTarget {
            incarnation: old.incarnation,
            stamp: old.stamp,
            run: old.run,
            adopting: 0,
            owner: OwnerEpoch(0),
            owner_run: 0,
        })
    }
}

/// `Q`: that this store was an older copy than what targets had served, and an operator went on with it. The metadata
/// server's; no operation reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AcceptedLoss {
    /// The first owner after it. What earlier owners made and no record names was lost with the newer store.
    pub from: OwnerEpoch,
    /// Owner epochs are the log's and these.
    pub epochs_skipped: u64,
    /// Sessions are numbered by their batches and these.
    pub sessions_skipped: u64,
    pub when: Timestamp,
}

first_version!(Format, Numbers, Usage, AcceptedLoss, EndedLife);
