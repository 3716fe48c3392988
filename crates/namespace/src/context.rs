//! The context of an operation: its input besides the records.

use crate::callbacks::CallbackResults;
use crate::open_rights::OpenRights;
use gupfs_proto::meta::{PlacementTarget, SlotSeq};
use gupfs_proto::{Caller, InodeId, Layout, OwnerEpoch, Seq, SessionId, Timestamp, VirtualShards};

/// The driver's input to one operation.
#[derive(Clone, Copy, Debug)]
pub struct OpContext<'a> {
    /// Time of the operation. The clock may stand still or step back: an inode's ctime never goes back.
    pub now: Timestamp,
    /// The session that sent the request. For `OpenSession` the id of the new session; background operations do not use it.
    pub session: SessionId,
    /// The request's slot and sequence number; None for reading requests and background operations.
    pub slot_seq: Option<SlotSeq>,
    pub caller: &'a Caller,
    /// The inodes that the session has open, as the request's open capabilities prove (`rights`).
    pub open_rights: &'a OpenRights,
    /// A fresh random number per attempt.
    pub entropy: u64,
    pub shards: VirtualShards,
    pub owner_epoch: OwnerEpoch,
    /// State of the OSTs as last reported; new layouts choose among them.
    pub targets: &'a [PlacementTarget],
    /// False while the store has only its reserve left: operations that add records or bytes are refused with `NoSpace`,
    /// operations that remove some are allowed.
    pub growth_allowed: bool,
    /// No other session is registered.
    pub is_only_session: bool,
    /// No other session has had the operation's file open. Only `SpillInline` uses it.
    pub is_private_file: bool,
    /// Requests that need this file's write lease revoked are queued before this operation.
    pub must_queue: bool,
    /// The reports of lease holders for this operation.
    pub callbacks: &'a CallbackResults,
    /// The sequence number that the operation's batch will have.
    pub seq: Seq,
    /// Set for a replay: the server replied to the operation, then lost it in a power loss.
    pub replay: Option<&'a OriginalResult>,
}

/// The results of the original execution that a replay must reproduce, because clients rely on them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OriginalResult {
    pub created: Option<InodeId>,
    pub layout: Option<Layout>,
}
