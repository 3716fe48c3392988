//! The party for which an operation is done.

use crate::origin::RequestOrigin;
use gupfs_namespace::OriginalResult;
use gupfs_namespace::rights::OpenRights;
use gupfs_proto::meta::SlotSeq;
use gupfs_proto::{Caller, Timestamp};

/// The party for which an operation is done.
#[derive(Clone, Copy)]
pub struct Requester<'a> {
    pub origin: RequestOrigin,
    /// The server itself, which needs no session.
    pub is_server: bool,
    pub slot_seq: Option<SlotSeq>,
    pub caller: &'a Caller,
    /// The files that the session has proved to have open.
    pub opens: &'a OpenRights,
    /// Set for a replay: the change was made before, and a power loss undid it.
    pub replay: Option<ReplayContext<'a>>,
}

/// How a replayed change was made the first time.
#[derive(Clone, Copy)]
pub struct ReplayContext<'a> {
    pub changed_at: Timestamp,
    pub recorded: &'a OriginalResult,
}
