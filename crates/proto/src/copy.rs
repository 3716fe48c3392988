//! Messages between the hosts that have the metadata: the owner sends its log to the copies, and a copy that takes over learns
//! what the others have.
//!
//! A request names the process that it is for, so that a later process of the same copy, which has lost its memory, does not answer for it.

use crate::error::FsError;
use crate::ids::{ClusterId, CopyId, CopyRun, Incarnation, OwnerEpoch, Seq, VirtualShards};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A place in the log: the last batch before it, and the checksum of the last record before it, which may be a watermark. Two logs of one
/// store that have the same position have the same records up to it, because each record names its predecessor's checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LogPosition {
    pub last: Seq,
    pub crc: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CopyRequest {
    /// None: whichever copy answers there.
    pub to: Option<CopyId>,
    /// The process that is meant; None: whichever runs now.
    pub run: Option<CopyRun>,
    pub op: CopyOp,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CopyOp {
    /// What the store is, and what this process has of it.
    State,
    /// The owner asks whether the copy still obeys it. Until a third of a lease's term later the copy does not take over.
    Promise { owner: OwnerEpoch },
    /// The owner has stopped in order, and is bound by no promise any more.
    Release { owner: OwnerEpoch },
    /// The owner's next records; their bytes are the payload.
    Append {
        owner: OwnerEpoch,
        after: LogPosition,
        upto: LogPosition,
        records: Bytes,
    },
    /// The list of the clients' keys, as the owner's directory has it now; its bytes are the payload. The copy keeps it, durably.
    KeyList { owner: OwnerEpoch, list: Bytes },
    /// All records that the copy has are to survive a power loss of its host.
    Sync { owner: OwnerEpoch },
    /// This host takes over: the copy obeys no owner before it from now on.
    Obey { owner: OwnerEpoch },
    /// The copy drops its records after this position, which it has: no client was answered them.
    CutTo { owner: OwnerEpoch, end: LogPosition },
    /// The copy discards what it has, and gets all records of the owner's index, as they are at this position or later.
    BeginSnapshot { owner: OwnerEpoch, at: LogPosition },
    /// More of the records; their encoding is the payload.
    SnapshotPart {
        owner: OwnerEpoch,
        number: u64,
        records: Bytes,
    },
    /// These were all parts.
    EndSnapshot { owner: OwnerEpoch, parts: u64 },
    /// Whether the copy's disk has more than the reserve for removals left. The reply is `HasRoom`. Since version 2.
    HasRoom,
}

pub type CopyReply = Result<CopyReplyBody, FsError>;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CopyReplyBody {
    /// Done; the copy's log ends there.
    End(LogPosition),
    State(CopyState),
    Refused(CopyRefusal),
    HasRoom(bool),
}

/// What a host has of the metadata.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CopyState {
    pub copy: CopyId,
    pub run: CopyRun,
    pub cluster: ClusterId,
    pub incarnation: Incarnation,
    pub shards: VirtualShards,
    /// The newest owner that it has heard of.
    pub epoch: OwnerEpoch,
    pub log: CopyLogState,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CopyLogState {
    /// This process is the owner.
    Owner,
    Open {
        end: LogPosition,
        /// The newest owner of whom it has a record.
        newest: OwnerEpoch,
        /// All later owners have the records up to there.
        decided: LogPosition,
        /// The last batch that its index has.
        applied: Seq,
    },
    /// It has nothing, or nothing that can be used, for this reason.
    Unusable(String),
}

/// Why a copy did not do what it was asked for. It is as it was.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum CopyRefusal {
    #[error("it obeys owner {known}")]
    FormerOwner { known: OwnerEpoch },
    #[error("its log ends at batch {}, and the records do not continue it", .has.last)]
    NotContinuous { has: LogPosition },
    #[error("another process answers there")]
    OtherProcess { copy: CopyId, run: CopyRun },
    #[error("its log has no record that ends there")]
    NoSuchPosition,
    #[error("the records are damaged")]
    Malformed,
    /// It can keep no more records: its disk failed or is full, or its process ends.
    #[error("it keeps no records: {0}")]
    Failed(String),
}

impl CopyOp {
    /// The request's name in logs and traces.
    pub fn name(&self) -> &'static str {
        match self {
            CopyOp::State => "state",
            CopyOp::Promise { .. } => "promise",
            CopyOp::Release { .. } => "release",
            CopyOp::Append { .. } => "append",
            CopyOp::KeyList { .. } => "key_list",
            CopyOp::Sync { .. } => "sync",
            CopyOp::Obey { .. } => "obey",
            CopyOp::CutTo { .. } => "cut_to",
            CopyOp::BeginSnapshot { .. } => "begin_snapshot",
            CopyOp::SnapshotPart { .. } => "snapshot_part",
            CopyOp::EndSnapshot { .. } => "end_snapshot",
            CopyOp::HasRoom => "has_room",
        }
    }

    /// On whose behalf the request is sent; None: it changes nothing.
    pub fn owner(&self) -> Option<OwnerEpoch> {
        match self {
            CopyOp::State | CopyOp::HasRoom => None,
            CopyOp::Promise { owner }
            | CopyOp::Release { owner }
            | CopyOp::Append { owner, .. }
            | CopyOp::KeyList { owner, .. }
            | CopyOp::Sync { owner }
            | CopyOp::Obey { owner }
            | CopyOp::CutTo { owner, .. }
            | CopyOp::BeginSnapshot { owner, .. }
            | CopyOp::SnapshotPart { owner, .. }
            | CopyOp::EndSnapshot { owner, .. } => Some(*owner),
        }
    }
}

/// The copies of the metadata, as one of them knows them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CopiesReport {
    /// The copy that reports.
    pub reporter: CopyId,
    pub epoch: OwnerEpoch,
    /// An owner's lease is alive.
    pub is_held: bool,
    /// Why the arbiter did not renew the owner's lease: the owner serves by the promises of the copies that count, and changes no membership.
    pub arbiter_error: Option<String>,
    pub members: Vec<CopyReport>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CopyReport {
    pub copy: CopyId,
    /// "host:port", where other hosts reach it.
    pub address: String,
    pub is_owner: bool,
    pub standing: CopyStanding,
    /// Batches of the owner that it does not have, and that it has not synced, as far as the owner knows. None: this reporter is not the
    /// owner.
    pub behind: Option<u64>,
    pub unsynced: Option<u64>,
    /// Parts of a snapshot that it has got.
    pub snapshot_parts: Option<u64>,
    /// Why it was struck last, and how often by this owner.
    pub struck: Option<String>,
    pub strikes: u32,
}

/// Whether a copy has everything that was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CopyStanding {
    /// It has; it can take over.
    Counting,
    /// The owner brings it up to date.
    Joining,
    /// It failed, or its host is away.
    Struck,
    /// It was too slow again and again: it stays out until its process is started again.
    LeftOut,
}

/// What an administrator changes about the copies.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CopiesChange {
    /// The owner stops in order, and this copy is the next owner. It counts.
    Move { to: CopyId },
    /// This copy is none any more. It is not the owner.
    Remove { copy: CopyId },
}
