//! Records of the shard itself: `F` format, `G` targets, `K` ended lives, `N` inode numbers, `U` usage.

use super::first_version;
use gupfs_proto::{ClusterId, Incarnation, OstLife, VirtualShards};
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
    /// Feature bits this program knows.
    pub const FEATURES: u64 = 0;

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

/// `G`: who a target was when it last said so. The metadata server's; no operation reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KnownTarget {
    pub incarnation: Incarnation,
    /// Rises at each opening of the target and while it serves.
    pub stamp: u64,
    /// Made at random at each opening: tells an older copy, opened once more, from the target that reached this stamp.
    pub run: u64,
}

/// `K`: the last life of a target that ended because a sync failed. The metadata server's; no operation reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EndedLife {
    pub incarnation: Incarnation,
    /// This one and those before it.
    pub upto: OstLife,
}

first_version!(Format, Numbers, Usage, KnownTarget, EndedLife);
