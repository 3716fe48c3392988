//! One call to the server as the cache sees it: from before its request is sent to its reply, over all repetitions.

use super::fill::LeasedReply;
use super::order::SentAt;
use super::table::{AffectedInodes, ChangeId};
use super::{CacheState, LeaseCache, SessionTerm};
use gupfs_proto::lease::LeaseReply;
use gupfs_proto::meta::{MetaOp, MetaReplyBody};
use gupfs_proto::{Caller, FsError, Slot};

/// If it is dropped before `finish`, the outcome is unknown: what a change may change is not answered until the server has executed a
/// later request of the same slot, or the session ends.
pub struct LeasedCall<'a> {
    cache: &'a LeaseCache,
    term: SessionTerm,
    /// The current request.
    sent: Option<SentAt>,
    /// The change that it makes, until that has ended.
    change: Option<ChangeId>,
    slot: Option<Slot>,
}

impl<'a> LeasedCall<'a> {
    pub(super) fn begin(cache: &'a LeaseCache, op: &MetaOp, slot: Option<Slot>) -> LeasedCall<'a> {
        let (mut term, mut change) = (SessionTerm(0), None);
        if let Some(state) = &cache.state {
            let mut state = state.lock();
            term = state.term;
            change = state.values.start_change(op);
        }
        LeasedCall {
            cache,
            term,
            sent: None,
            change,
            slot,
        }
    }

    /// The inodes whose attributes the call may change; nothing says what they are from now on until it has ended.
    pub fn affected_inodes(&self) -> AffectedInodes {
        match (&self.cache.state, self.change) {
            (Some(state), Some(change)) => state.lock().values.inodes_of_change(change),
            _ => AffectedInodes::These(Vec::new()),
        }
    }

    /// The request is about to be sent, or sent again. To be called before the session and instance are read that it is sent to.
    pub fn start_request(&mut self) {
        let Some(state) = &self.cache.state else {
            return;
        };
        let mut state = state.lock();
        if let Some(former) = self.sent.take() {
            state.values.end_request(former);
        }
        self.term = state.term;
        self.sent = Some(state.values.start_request());
    }

    /// The call has this outcome.
    pub fn finish(
        mut self,
        caller: &Caller,
        op: &MetaOp,
        outcome: &Result<MetaReplyBody, FsError>,
        leases: &LeaseReply,
    ) {
        let Some(state) = &self.cache.state else {
            return;
        };
        let mut state = state.lock();
        // The server may still execute it: then the change is abandoned by `drop`.
        if let Err(FsError::TimedOut(_)) = outcome {
            return;
        }
        let change = self.change.take();
        let caller = state.acceptance.caller(caller);
        match (caller, self.sent) {
            (Some(caller), Some(sent)) if self.term == state.term => {
                state.values.fill(&LeasedReply {
                    op,
                    sees_trusted: caller.is_root(),
                    sent,
                    change,
                    outcome,
                    grants: &leases.grants,
                    changed: &leases.changed,
                });
            }
            _ => state.end_untold(change),
        }
        if let (Ok(_), Some(slot), true) = (outcome, self.slot, self.term == state.term) {
            state.values.end_abandoned(slot);
        }
    }
}

impl CacheState {
    /// The change has ended, and nothing is known of what it changed.
    fn end_untold(&mut self, change: Option<ChangeId>) {
        if let Some(change) = change {
            self.values.end_untold_change(change);
        }
    }
}

impl Drop for LeasedCall<'_> {
    fn drop(&mut self) {
        let Some(state) = &self.cache.state else {
            return;
        };
        let mut state = state.lock();
        if let Some(sent) = self.sent {
            state.values.end_request(sent);
        }
        match self.change.take() {
            Some(change) if self.sent.is_some() && self.term == state.term => {
                state.values.abandon_change(change, self.slot);
            }
            // The server cannot execute it any more, or never got it.
            change => state.end_untold(change),
        }
    }
}
