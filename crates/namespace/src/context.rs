//! What an operation knows besides the records.

use crate::chores::ChoreOp;
use crate::held::Words;
use crate::rights::Opens;
use gupfs_proto::meta::{self, Lane, TargetState};
use gupfs_proto::{Caller, InodeId, Layout, OwnerEpoch, Seq, SessionId, Timestamp, VirtualShards};

#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Time of the operation. It may stand still; a step back is survived (an inode's ctime never goes back).
    pub now: Timestamp,
    /// Who asks. For `OpenSession` the id that the new session is to have; for chores it plays no part.
    pub session: SessionId,
    /// The request's lane; None for reading requests and chores.
    pub lane: Option<Lane>,
    pub caller: &'a Caller,
    /// What the request proves that its session has open (`rights`).
    pub opens: &'a Opens,
    /// A fresh random number per attempt.
    pub entropy: u64,
    pub shards: VirtualShards,
    pub owner_epoch: OwnerEpoch,
    /// Targets as last seen; new layouts choose among them.
    pub targets: &'a [TargetState],
    /// False while the store has only its reserve left: what makes records or bytes more is refused with `NoSpace`,
    /// what makes them fewer goes on.
    pub growth_allowed: bool,
    /// No other session is registered.
    pub alone: bool,
    /// Nobody but this session has had the file open that the operation is about. Counts for `Spilled` alone.
    pub unseen: bool,
    /// Others wait for this file to be given back, and their turn is before this operation's.
    pub queues: bool,
    /// What holders have told for this operation.
    pub words: &'a Words,
    /// The number that the operation's batch will have.
    pub seq: Seq,
    /// The operation was answered before a power cut that made it forgotten.
    pub again: Option<&'a Again>,
}

/// What must come out as it did when an operation is done again: others count on it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Again {
    pub made: Option<InodeId>,
    pub layout: Option<Layout>,
}

/// What the machine can be asked.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    Client(&'a meta::Op),
    Chore(&'a ChoreOp),
}
