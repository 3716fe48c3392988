//! The interface between the state machine and its driver: the records that the machine reads, its prerequisites and its effects.

use crate::key::{KeyRange, PurgeId, RecordKey};
use bytes::Bytes;
use gupfs_proto::meta::MetaReplyBody;
use gupfs_proto::{FsError, InodeId, ObjectId, OstId, Seq, SessionId, VirtualShard};
use std::ops::Range;

/// The newest state: committed batches with the staged ones over them. All records read during one `apply` come from one state.
pub trait RecordSource {
    /// The record in its newest state, if it is in memory.
    fn get(&self, key: &RecordKey) -> CachedRecord;

    /// The first `limit` records of a range in ascending order; None if the range is not in memory now. The result must include
    /// all staged changes, also those staged after the range was fetched.
    fn scan(&self, range: &KeyRange, limit: usize) -> Option<Vec<(RecordKey, Bytes)>>;
}

/// The state of a key in the driver's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CachedRecord {
    /// The record's value; None: there is no such record.
    Value(Option<Bytes>),
    /// Not in memory: the driver must fetch it.
    Unknown,
}

/// The result of applying an operation once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ApplyResult {
    /// The driver must provide this, then call `apply` again. Nothing was changed.
    Needs(Prerequisite),
    Done(Effects),
}

/// A condition that the driver must meet before the operation can complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Prerequisite {
    /// These records in memory.
    Keys(Vec<RecordKey>),
    /// The first `limit` records of this range in memory.
    Scan { range: KeyRange, limit: usize },
    /// No inode number is left for this shard: apply `BackgroundOp::ReserveInodeNumbers`, wait until its batch is durable, then
    /// call `ShardMachine::add_reserved_numbers`. (A number that was used before its reservation was durable would be used again
    /// after a power loss.)
    InodeNumbers(VirtualShard),
    /// A truncate of the inode's objects is not finished: wait until `BackgroundOp::TruncateDone` for this id was applied. The
    /// truncate's batch came with `FollowUp::Truncate`; after a start the driver finds the `P` record.
    Truncate(PurgeId),
    /// Other sessions have write leases of this file (`KeyRange::write_leases`): send them this callback. For a glimpse, note their
    /// attribute reports in `CallbackResults`. Operations that need a lease revoked or downgraded proceed in the order in which they
    /// arrived.
    Callback {
        ino: InodeId,
        callback: LeaseCallback,
    },
    /// Wait until the requests that were queued earlier for a revoke or downgrade of this file's write leases have finished.
    LeaseQueue(InodeId),
}

/// What the holder of a write lease must do before an operation of another session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseCallback {
    /// Report the file's attributes.
    Glimpse,
    /// Release the lease.
    Revoke,
    /// Make the exclusive lease a concurrent one.
    Downgrade,
}

/// Record changes to commit atomically: a new value, or None to remove the record. Keys ascend and are unique.
pub type RecordBatch = Vec<(RecordKey, Option<Bytes>)>;

/// The results of a completed operation: record changes, the reply, and actions of the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Effects {
    /// Empty if the operation changed nothing.
    pub batch: RecordBatch,
    /// If the request was executed before: the batch in which it made its change.
    pub original_seq: Option<Seq>,
    pub reply: Result<MetaReplyBody, FsError>,
    /// Actions that the driver takes once the batch is committed.
    pub follow_ups: Vec<FollowUp>,
    /// The operation has more changes than one batch holds: stage this batch, then apply the operation again. Each staged batch
    /// is consistent by itself: if the server stops in between, the client sends the request again, or the end of its session
    /// completes the rest.
    pub unfinished: bool,
}

/// An action that the driver must take after the batch is committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FollowUp {
    /// Truncate each object to its length, then apply `TruncateDone`, then reply to the request that caused it (applied again, it
    /// returns its stored reply with the attributes after the truncate). Until then other operations on the file get
    /// `Prerequisite::Truncate`.
    Truncate {
        id: PurgeId,
        objects: Vec<(OstId, ObjectId, u64)>,
    },
    /// Remove the objects at some later time, then apply `PurgeDone`. The `P` record says the same, so the driver may drop this
    /// and find the record later.
    Purge {
        id: PurgeId,
        objects: Vec<(OstId, ObjectId)>,
    },
    /// Confirm the objects of this file at some later time. The `L` record says the same, so the driver may drop this and find
    /// the record later.
    Confirm(InodeId),
    /// Bring the stale members of this file up to date at some later time. The `Y` record says the same, so the driver may drop this and
    /// find the record later.
    Resync(InodeId),
    /// The driver must not send the reply before the batch is durable.
    AwaitDurable,
    /// Inode numbers were reserved: call `ShardMachine::add_reserved_numbers` when the batch is durable.
    InodeNumbers {
        shard: VirtualShard,
        counters: Range<u64>,
    },
    /// The last name of this file was removed: ask all sessions except the one that removed it (`by`) which of them have it open,
    /// apply `RecordOrphan` for those, then `ForgetOrphan` for `UNASKED_SESSIONS`. The `O` record says the same, so the driver
    /// may drop this and find the record later.
    FindOpeners { ino: InodeId, by: SessionId },
    /// The session has ended: scan the `O` and `M` records for it and apply `ForgetOrphan` and `RecoverWriteLease`, then
    /// `DropSession` for each shard.
    SessionEnded(SessionId),
    /// The inode was removed: the driver may drop what it keeps about it in memory.
    InodeRemoved(InodeId),
}

/// The reason why an operation did not complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum OpError {
    Needs(Box<Prerequisite>),
    Refused(FsError),
}

impl From<Prerequisite> for OpError {
    fn from(prerequisite: Prerequisite) -> OpError {
        OpError::Needs(Box::new(prerequisite))
    }
}

impl From<FsError> for OpError {
    fn from(error: FsError) -> OpError {
        OpError::Refused(error)
    }
}

pub(crate) type OpResult<T> = Result<T, OpError>;
