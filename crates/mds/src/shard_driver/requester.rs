//! The party for which an operation is done.

use crate::origin::RequestOrigin;
use gupfs_namespace::OriginalResult;
use gupfs_namespace::rights::OpenRights;
use gupfs_proto::meta::SlotSeq;
use gupfs_proto::{Caller, SessionId, Timestamp};

/// The party for which an operation is done.
#[derive(Clone, Copy)]
pub struct Requester<'a> {
    pub origin: RequestOrigin,
    /// The server itself, which needs no session.
    pub is_server: bool,
    /// The session for whose request, still without a reply, the server does this.
    pub on_behalf_of: Option<SessionId>,
    pub slot_seq: Option<SlotSeq>,
    pub caller: &'a Caller,
    /// The files that the session has proved to have open.
    pub opens: &'a OpenRights,
    /// Set for a replay: the change was made before, and a power loss undid it.
    pub replay: Option<ReplayContext<'a>>,
}

impl Requester<'_> {
    /// The session that makes the change. Its own leases are not revoked for it, so that its operation never waits for its own answer: the
    /// reply says what they cover from then on.
    pub fn changing_session(&self) -> Option<SessionId> {
        match self.is_server {
            true => self.on_behalf_of,
            false => Some(self.origin.session),
        }
    }
}

/// How a replayed change was made the first time.
#[derive(Clone, Copy)]
pub struct ReplayContext<'a> {
    pub changed_at: Timestamp,
    pub recorded: &'a OriginalResult,
}
