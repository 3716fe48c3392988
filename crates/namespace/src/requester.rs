//! The requester of an operation: parts of the context that an operation gets, as far as it needs them.

use crate::callbacks::CallbackResults;
use crate::context::OpContext;
use crate::open_rights::OpenRights;
use gupfs_proto::{Caller, SessionId};

/// The session that sent the request, the credentials of the request, and the inodes that the session has open.
pub(crate) struct Requester<'a> {
    pub session: RequestingSession<'a>,
    pub caller: &'a Caller,
    pub open_rights: &'a OpenRights,
}

/// The session that sent the request, and how it stands to other sessions.
pub(crate) struct RequestingSession<'a> {
    pub id: SessionId,
    /// No other session is registered.
    pub is_only: bool,
    /// Requests that need this file's write lease revoked are queued before this operation.
    pub must_queue: bool,
    /// The server replied to the request before a power loss; the session replays it.
    pub is_replay: bool,
    /// The reports of lease holders for this operation.
    pub callbacks: &'a CallbackResults,
}

impl<'a> Requester<'a> {
    pub fn from_context(ctx: &OpContext<'a>) -> Requester<'a> {
        Requester {
            session: RequestingSession {
                id: ctx.session,
                is_only: ctx.is_only_session,
                must_queue: ctx.must_queue,
                is_replay: ctx.replay.is_some(),
                callbacks: ctx.callbacks,
            },
            caller: ctx.caller,
            open_rights: ctx.open_rights,
        }
    }
}
