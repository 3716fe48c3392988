//! The outcome of an operation, and of one attempt at it.

use crate::pending_work::PendingTruncate;
use gupfs_namespace::Prerequisite;
use gupfs_namespace::leases::LeaseConflicts;
use gupfs_proto::lease::LeaseGrant;
use gupfs_proto::meta::{AppliedChange, MetaReplyBody};
use gupfs_proto::{Attr, FsError, Seq, SessionId, VirtualShard};
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
    /// The reply leaves when `seq` and the change are durable. So does each reply to a repeated request.
    pub durable: bool,
    /// The reply depends on attribute reports that other sessions sent meanwhile.
    pub used_callbacks: bool,
    /// The operation has more to do than one batch holds.
    pub has_more_batches: bool,
    /// What the requester may remember of the reply.
    pub leases: ReplyLeases,
}

/// The leases that go out with a reply.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReplyLeases {
    pub grants: Vec<LeaseGrant>,
    /// The attributes, after the change, of inodes that the operation changed, that the reply does not contain and on whose attributes
    /// the requester has a lease.
    pub changed: Vec<Attr>,
}

impl ReplyLeases {
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty() && self.changed.is_empty()
    }
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
            leases: ReplyLeases::default(),
        }
    }
}

/// How one attempt ended.
#[allow(clippy::large_enum_variant)] // nearly every attempt is `Done`, and is looked at once: a box would cost each operation an allocation
pub enum Attempt {
    Done(AppliedOp),
    /// The number is how many blocks of inode numbers the shard had been given: a task that finds more does not reserve another.
    Need(Prerequisite, u64),
    /// Nothing is staged: other sessions must give up these leases first. Their keys are closed to grants.
    Revoke(LeaseConflicts),
    RecordChanged,
}
