//! Records of the shard itself: `F` format, `G` targets, `K` retired write verifiers, `N` inode counters, `Q` accepted losses,
//! `U` usage.

use super::{Record, RecordDecodeError, V1, decode_body, encode_body, impl_record_v1};
use bytes::Bytes;
use gupfs_proto::{
    ClusterId, DomainName, Incarnation, OwnerEpoch, Timestamp, VirtualShards, WriteVerifier,
};
use serde::{Deserialize, Serialize};

/// `F`: what a program must support to read and write this store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoreFormat {
    /// Oldest format generation of a program that may read (`reader`) and write (`writer`) these records.
    pub reader: u32,
    pub writer: u32,
    /// Features in use; a program that does not know one of the bits must not use the store.
    pub features: u64,
    pub cluster: ClusterId,
    pub incarnation: Incarnation,
    pub shards: VirtualShards,
}

impl StoreFormat {
    /// The generation that this program writes, and the newest that it reads.
    pub const CURRENT: u32 = 1;
    /// A loss was accepted: owner epochs are those of the log plus `AcceptedLoss::epochs_skipped` (`Q`).
    pub const LOSS_ACCEPTED: u64 = 1;
    /// Default layouts and layouts may have redundancy.
    pub const MIRRORS: u64 = 2;
    /// Feature bits that this program knows.
    pub const FEATURES: u64 = StoreFormat::LOSS_ACCEPTED | StoreFormat::MIRRORS;

    /// The reason why this program must not use the store; None if it may.
    pub fn incompatibility(&self) -> Option<String> {
        if self.reader > StoreFormat::CURRENT || self.writer > StoreFormat::CURRENT {
            return Some(format!(
                "the store needs a program of format {} or newer, this program has format {}: start the newer program",
                self.reader.max(self.writer),
                StoreFormat::CURRENT
            ));
        }
        let unknown = self.features & !StoreFormat::FEATURES;
        (unknown != 0)
            .then(|| format!("the store uses features that this program does not know ({unknown:#x}): start the newer program"))
    }
}

/// `N`: inode counters of the shard below `next` are reserved or used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InodeCounter {
    pub next: u64,
}

/// `U volume`: usage of a volume in this shard. It costs one small record more in each batch that creates or removes an inode; in
/// return statfs and a start read one record per shard instead of all inodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    pub inodes: u64,
    /// Number of `P` records that remove objects: their space is not free yet.
    pub purging: u64,
}

/// `G`: the identity that a target last reported, and what the metadata server told it. Only the metadata server uses it, no
/// operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KnownTarget {
    pub incarnation: Incarnation,
    /// Increases while the target serves.
    pub stamp: u64,
    /// Random number of one open instance of the target: it distinguishes a copy from the target that reached this stamp.
    pub run: u64,
    /// The run that the server told to write itself into the superblock and that has not confirmed it yet; 0: none.
    pub adopting: u64,
    /// Owner epoch and run of the newest start of the metadata server that the target may know. A target that knows a newer one
    /// has served a later state of this store.
    pub owner: OwnerEpoch,
    pub owner_run: u64,
    /// When an administrator declared it lost for ever, or removed it.
    pub lost_since: Option<Timestamp>,
    /// Since when its objects move to other targets.
    pub draining_since: Option<Timestamp>,
    /// It was drained and removed: it is lost, but no bytes are.
    pub is_removed: bool,
    /// The failure domain that its server named last.
    pub domain: Option<DomainName>,
    /// The older copy of it that an administrator has accepted, until that serves, or what it is a copy of.
    pub accepted: Option<AcceptedCopy>,
    pub drain: DrainSettings,
}

/// A copy of a target that may lack what the target has served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AcceptedCopy {
    pub incarnation: Incarnation,
    /// Stamp and run in its superblock.
    pub stamp: u64,
    pub run: u64,
}

/// How a target is drained.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DrainSettings {
    /// Bytes that may be read a second; None: as fast as it can.
    pub rate: Option<u64>,
    /// New files stay away, and nothing moves.
    pub is_paused: bool,
}

/// `K`: the newest write verifier of a target that was retired because a sync failed. Only the metadata server uses it, no
/// operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RetiredVerifier {
    pub incarnation: Incarnation,
    /// This verifier and all earlier ones are retired.
    pub upto: WriteVerifier,
}

/// Of a target that is neither lost nor drained: a former program reads it, and refuses a store with a lost target, for which it would
/// wait, and with a drained one, where it would place new files.
const TARGET_VERSION: u8 = 2;
/// Of a lost target that was never drained.
const LOST_TARGET_VERSION: u8 = 3;
const DRAINED_TARGET_VERSION: u8 = 4;
/// Of a target in a named failure domain, where a former program would place members of mirrored stripes without regard to it; with an
/// accepted copy, or with settings of its drain.
const NAMED_TARGET_VERSION: u8 = 5;

/// `G` before the metadata server told targets its owner epoch.
#[derive(Serialize, Deserialize)]
struct KnownTargetV1 {
    incarnation: Incarnation,
    stamp: u64,
    run: u64,
}

/// `G` before targets could be lost.
#[derive(Serialize, Deserialize)]
struct KnownTargetV2 {
    incarnation: Incarnation,
    stamp: u64,
    run: u64,
    adopting: u64,
    owner: OwnerEpoch,
    owner_run: u64,
}

/// `G` before targets could be drained.
#[derive(Serialize, Deserialize)]
struct KnownTargetV3 {
    incarnation: Incarnation,
    stamp: u64,
    run: u64,
    adopting: u64,
    owner: OwnerEpoch,
    owner_run: u64,
    lost_since: Option<Timestamp>,
}

/// `G` before failure domains had names.
#[derive(Serialize, Deserialize)]
struct KnownTargetV4 {
    incarnation: Incarnation,
    stamp: u64,
    run: u64,
    adopting: u64,
    owner: OwnerEpoch,
    owner_run: u64,
    lost_since: Option<Timestamp>,
    draining_since: Option<Timestamp>,
    is_removed: bool,
}

impl From<KnownTargetV1> for KnownTargetV2 {
    fn from(old: KnownTargetV1) -> KnownTargetV2 {
        KnownTargetV2 {
            incarnation: old.incarnation,
            stamp: old.stamp,
            run: old.run,
            adopting: 0,
            owner: OwnerEpoch(0),
            owner_run: 0,
        }
    }
}

impl From<KnownTargetV2> for KnownTargetV3 {
    fn from(old: KnownTargetV2) -> KnownTargetV3 {
        KnownTargetV3 {
            incarnation: old.incarnation,
            stamp: old.stamp,
            run: old.run,
            adopting: old.adopting,
            owner: old.owner,
            owner_run: old.owner_run,
            lost_since: None,
        }
    }
}

impl From<KnownTargetV3> for KnownTargetV4 {
    fn from(old: KnownTargetV3) -> KnownTargetV4 {
        KnownTargetV4 {
            incarnation: old.incarnation,
            stamp: old.stamp,
            run: old.run,
            adopting: old.adopting,
            owner: old.owner,
            owner_run: old.owner_run,
            lost_since: old.lost_since,
            draining_since: None,
            is_removed: false,
        }
    }
}

impl From<KnownTargetV4> for KnownTarget {
    fn from(old: KnownTargetV4) -> KnownTarget {
        KnownTarget {
            incarnation: old.incarnation,
            stamp: old.stamp,
            run: old.run,
            adopting: old.adopting,
            owner: old.owner,
            owner_run: old.owner_run,
            lost_since: old.lost_since,
            draining_since: old.draining_since,
            is_removed: old.is_removed,
            domain: None,
            accepted: None,
            drain: DrainSettings::default(),
        }
    }
}

impl Record for KnownTarget {
    fn encode(&self) -> Bytes {
        let has_settings = self.drain != DrainSettings::default();
        if self.domain.is_some() || self.accepted.is_some() || has_settings {
            return encode_body(NAMED_TARGET_VERSION, self);
        }
        if self.draining_since.is_some() || self.is_removed {
            let without_name = KnownTargetV4 {
                incarnation: self.incarnation,
                stamp: self.stamp,
                run: self.run,
                adopting: self.adopting,
                owner: self.owner,
                owner_run: self.owner_run,
                lost_since: self.lost_since,
                draining_since: self.draining_since,
                is_removed: self.is_removed,
            };
            return encode_body(DRAINED_TARGET_VERSION, &without_name);
        }
        if self.lost_since.is_some() {
            let not_drained = KnownTargetV3 {
                incarnation: self.incarnation,
                stamp: self.stamp,
                run: self.run,
                adopting: self.adopting,
                owner: self.owner,
                owner_run: self.owner_run,
                lost_since: self.lost_since,
            };
            return encode_body(LOST_TARGET_VERSION, &not_drained);
        }
        let not_lost = KnownTargetV2 {
            incarnation: self.incarnation,
            stamp: self.stamp,
            run: self.run,
            adopting: self.adopting,
            owner: self.owner,
            owner_run: self.owner_run,
        };
        encode_body(TARGET_VERSION, &not_lost)
    }

    fn decode(value: &Bytes) -> Result<KnownTarget, RecordDecodeError> {
        let before_drains: KnownTargetV3 = match value.first() {
            Some(&V1) => KnownTargetV2::from(decode_body::<KnownTargetV1>(V1, value)?).into(),
            Some(&TARGET_VERSION) => decode_body::<KnownTargetV2>(TARGET_VERSION, value)?.into(),
            Some(&LOST_TARGET_VERSION) => decode_body(LOST_TARGET_VERSION, value)?,
            Some(&DRAINED_TARGET_VERSION) => {
                return decode_body(DRAINED_TARGET_VERSION, value).map(KnownTargetV4::into);
            }
            _ => return decode_body(NAMED_TARGET_VERSION, value),
        };
        Ok(KnownTargetV4::from(before_drains).into())
    }
}

/// `Q`: this store was older than the state that targets had served, and an operator accepted the loss. Only the metadata server
/// uses it, no operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AcceptedLoss {
    /// The first owner epoch after the loss. Objects that earlier owner epochs created and no record refers to were lost with the
    /// newer store.
    pub from: OwnerEpoch,
    /// Added to the log's owner epochs.
    pub epochs_skipped: u64,
    /// Added to the batch number that becomes a session id.
    pub sessions_skipped: u64,
    pub when: Timestamp,
}

/// `Z`: what a session may have leases or locks on; everything is in the key. Only the metadata server uses it, no operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RecordedInterest;

impl_record_v1!(
    RecordedInterest,
    StoreFormat,
    InodeCounter,
    Usage,
    AcceptedLoss,
    RetiredVerifier
);
