//! The outcome of an operation, and of one attempt at it.

use crate::pending_work::PendingTruncate;
use gupfs_namespace::Prerequisite;
use gupfs_proto::meta::{AppliedChange, MetaReplyBody};
use gupfs_proto::{FsError, Seq, SessionId, VirtualShard};
use std::ops::Range;
use std::sync::Arc;

/// The outcome of an operation. Its batch is staged, not committed.
pub struct AppliedOp {
    pub result: Result<MetaReplyBody, FsError>,
    /// The newest batch that the reply depends on: the operation's own, or one that it saw.
    pub seq: Seq,
    /// Whether it changed anything.
    pub changed: bool,
    /// The change that the operation made, now or when its request arrived first.
    pub change: Option<AppliedChange>,
    /// A truncate to run before the reply leaves.
    pub truncate: Option<Arc<PendingTruncate>>,
    /// A session that ended and needs cleanup.
    pub ended_session: Option<SessionId>,
    /// A block of inode numbers that was reserved, usable once `seq` is durable.
    pub reserved_block: Option<(VirtualShard, Range<u64>)>,
    /// The reply leaves when `seq` is durable.
    pub durable: bool,
    /// The reply depends on attribute reports that other sessions sent meanwhile.
    pub used_callbacks: bool,
    /// The operation has more to do than one batch holds.
    pub has_more_batches: bool,
}

impl AppliedOp {
    /// Nothing was staged.
    pub fn refused(error: FsError, seen: Seq) -> AppliedOp {
        AppliedOp {
            result: Err(error),
            seq: seen,
            changed: false,
            change: None,
            truncate: None,
            ended_session: None,
            reserved_block: None,
            durable: false,
            used_callbacks: false,
            has_more_batches: false,
        }
    }
}

/// How one attempt ended.
pub enum Attempt {
    Done(AppliedOp),
    /// The number is how many blocks of inode numbers the shard had been given: a task that finds more does not reserve another.
    Need(Prerequisite, u64),
    RecordChanged,
}
