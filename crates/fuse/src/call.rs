//! The caller of a request, and the node that it concerns.

use std::fmt;
use std::sync::Arc;

use crate::buffer::{Pool, Scratch};
use crate::pending::{Interrupted, PendingRequests};
use crate::transport::ring::EntryRef;
use crate::wire::{Groups, RequestHeader};
use crate::{NodeId, Unique};

/// The fields that every request carries beside its arguments. Over io_uring the reply is sent only after this is dropped.
pub struct Call {
    pub unique: Unique,
    /// The node that the request concerns; for operations on names, the directory.
    pub node: NodeId,
    pub uid: u32,
    pub gid: u32,
    /// The calling thread; 0 if it is in another pid namespace, or if the kernel itself sends the request.
    pub pid: u32,
    /// With CREATE_SUPP_GROUP: the group of the parent directory, if the caller is a member; for creating operations only.
    pub groups: Groups,
    call_context: Arc<CallContext>,
    /// The ring entry, if the request came through a ring: the reply is sent when this call and everything made from it is
    /// dropped.
    entry: Option<EntryRef>,
}

impl Call {
    pub(crate) fn new(
        header: &RequestHeader,
        groups: Groups,
        call_context: Arc<CallContext>,
        entry: Option<EntryRef>,
    ) -> Call {
        let RequestHeader {
            unique,
            node,
            uid,
            gid,
            pid,
            ..
        } = *header;
        Call {
            unique,
            node,
            uid,
            gid,
            pid,
            groups,
            call_context,
            entry,
        }
    }

    /// Ready when the calling program receives a signal while it waits for the reply. See `Interrupted`.
    pub fn interrupted(&self) -> Interrupted {
        Interrupted::new(self.unique, self.call_context.pending.clone())
    }

    /// Whether the calling program has received a signal by now.
    pub fn is_interrupted(&self) -> bool {
        self.call_context.pending.is_interrupted(self.unique)
    }

    /// Memory for the data of a READ reply. The first call for a request that came through a ring returns the ring entry's
    /// payload, so that the data is not copied.
    pub fn scratch(&self, size: usize) -> Scratch {
        let entry = self.entry.as_ref().filter(|entry| size <= entry.capacity());
        if let Some(payload) = entry.and_then(EntryRef::take_payload) {
            return Scratch::in_entry(payload, size);
        }
        Scratch::new(size, self.call_context.pool.clone())
    }
}

/// The state that a `Call` needs while its handler runs.
pub(crate) struct CallContext {
    pub pool: Arc<Pool>,
    pub pending: Arc<PendingRequests>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call {
            unique,
            node,
            uid,
            gid,
            pid,
            groups,
            call_context: _,
            entry: _,
        } = self;
        write!(
            f,
            "Call({} node {node} by uid {uid} gid {gid} {groups:?} pid {pid})",
            unique.0
        )
    }
}
