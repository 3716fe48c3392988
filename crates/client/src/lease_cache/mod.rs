//! # lease_cache: what this client may answer without the metadata server
//!
//! Owns   values that the server has leased to this session: names, attributes with ACLs and extended attributes, listings, layouts and
//!        inline data; whether the session takes leases; the order in which replies, revocations and this client's changes come.
//! Never  calls a server, reads a clock, or caches anything without a lease.
//! Enter  at `LeaseCache::answer`, `LeaseCache::begin`, `LeaseCache::revoke`.
//!
//! A value is in the cache only while the server would revoke it before anybody could see another (docs/SEMANTICS.md). The session's own
//! changes are not revoked: from sending to reply, what they may change is not answered, and then it is what the reply says, or dropped.

mod affected;
mod answer;
mod call;
mod fill;
mod inode;
mod listing;
mod lru;
mod names;
mod order;
mod table;
#[cfg(test)]
mod tests;

pub use call::LeasedCall;
pub use table::AffectedInodes;

use crate::lease_number::LeaseNumber;
use crate::metrics::Counters;
use gupfs_proto::lease::LeaseRevocation;
use gupfs_proto::meta::{MetaOp, MetaReplyBody};
use gupfs_proto::{Attr, Caller, FsError, InodeId, Name, Slot};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::sync::Arc;
use table::LeasedValues;

pub struct LeaseCache {
    /// None for a client that is not shared: its kernel caches already.
    state: Option<Mutex<CacheState>>,
    counters: Arc<Counters>,
}

struct CacheState {
    acceptance: Acceptance,
    requests: u64,
    term: SessionTerm,
    values: LeasedValues,
}

/// Whether the server grants leases to this session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Acceptance {
    /// The client has not asked yet.
    NotAsked,
    /// The reply to this request is under way, or the server has refused.
    Asked(LeaseRequest),
    /// `root_squashed`: the server squashes root of this host.
    Accepted { root_squashed: bool },
}

/// A request of this client for leases: which one, and in which term.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseRequest {
    term: SessionTerm,
    number: u64,
}

/// Numbers the sessions and server instances of this client: a reply counts only in the term in which its request was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionTerm(u64);

/// The cache's part of the client's status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeaseCacheStatus {
    pub accepted: bool,
    /// Leased values of all kinds.
    pub values: usize,
}

impl LeaseCache {
    pub fn new(shared: bool, counters: Arc<Counters>) -> LeaseCache {
        let state = CacheState {
            acceptance: Acceptance::NotAsked,
            requests: 0,
            term: SessionTerm(0),
            values: LeasedValues::default(),
        };
        LeaseCache {
            state: shared.then(|| Mutex::new(state)),
            counters,
        }
    }

    /// A new session begins, or the session goes on at another instance of the server: no lease is left. To be called before the server
    /// hears of it.
    pub fn restart(&self) {
        if let Some(state) = &self.state {
            let mut state = state.lock();
            state.term.0 += 1;
            state.acceptance = Acceptance::NotAsked;
            state.values.restart();
        }
    }

    /// The session's term may be over. Its leases may be revoked by now.
    pub fn clear(&self) {
        if let Some(state) = &self.state {
            state.lock().values.clear();
        }
    }

    /// The client is about to ask for leases. None if it has asked in this term.
    pub fn ask(&self) -> Option<LeaseRequest> {
        let mut state = self.state.as_ref()?.lock();
        if state.acceptance != Acceptance::NotAsked {
            return None;
        }
        state.requests += 1;
        let request = LeaseRequest {
            term: state.term,
            number: state.requests,
        };
        state.acceptance = Acceptance::Asked(request);
        Some(request)
    }

    /// The server is to say again how it sees root: the connection is another one. Until then nothing is answered.
    pub fn ask_again(&self) {
        if let Some(state) = &self.state {
            state.lock().acceptance = Acceptance::NotAsked;
        }
    }

    /// The server has refused for now.
    pub fn refused(&self, request: LeaseRequest) {
        let Some(state) = &self.state else { return };
        let mut state = state.lock();
        if state.acceptance == Acceptance::Asked(request) {
            state.acceptance = Acceptance::NotAsked;
        }
    }

    /// The server has accepted. Grants count from here on: replies to earlier requests may be of another session.
    pub fn accepted(&self, request: LeaseRequest, root_squashed: bool) {
        let Some(state) = &self.state else { return };
        let mut state = state.lock();
        if state.acceptance == Acceptance::Asked(request) {
            state.values.clear();
            state.acceptance = Acceptance::Accepted { root_squashed };
        }
    }

    /// The server's reply to the operation, if leases tell it. The caller has checked that the session is valid. `is_open`: whether this
    /// session can prove that it has the operation's subject open.
    pub fn answer(
        &self,
        caller: &Caller,
        op: &MetaOp,
        is_open: impl FnOnce() -> bool,
    ) -> Option<Result<MetaReplyBody, FsError>> {
        let state = self.state.as_ref()?;
        if !answer::is_answerable(op) {
            return None;
        }
        let is_open = is_open();
        let mut state = state.lock();
        let caller = state.acceptance.caller(caller)?;
        let answer = state.values.answer(&caller, op, is_open);
        drop(state);
        if answer.is_some() {
            tracing::trace!(target: "walk", file = file!(), "answer");
            Counters::add(&self.counters.lease_hits, 1);
        } else {
            Counters::add(&self.counters.lease_misses, 1);
        }
        answer
    }

    /// The operation as it is sent, after leases did not answer it: a page of a listing whose pages before it are here is read with
    /// attributes, also if the program has not asked for them. Linux asks only with the first page; who lists a directory usually looks at its
    /// entries next, which would take a request each.
    pub fn widened(&self, mut op: MetaOp) -> MetaOp {
        if let (MetaOp::Readdir { dir, plus, .. }, Some(state)) = (&mut op, &self.state) {
            *plus |= state.lock().values.wants_listed_attributes(*dir);
        }
        op
    }

    /// The uid of a caller as the server sees it. None without leases.
    pub fn uid_at_server(&self, caller: &Caller) -> Option<u32> {
        let state = self.state.as_ref()?.lock();
        state.acceptance.caller(caller).map(|caller| caller.uid)
    }

    /// A call to the server begins; `slot`: that of its requests, if it changes anything.
    pub fn begin(&self, op: &MetaOp, slot: Option<Slot>) -> LeasedCall<'_> {
        LeasedCall::begin(self, op, slot)
    }

    /// Whether these are an inode's attributes by a lease now.
    pub fn has_attributes(&self, attr: &Attr) -> bool {
        let Some(state) = &self.state else {
            return false;
        };
        let state = state.lock();
        matches!(state.acceptance, Acceptance::Accepted { .. }) && state.values.has_attributes(attr)
    }

    /// The inode of a name by a lease. None: not known, or there is none.
    pub fn target(&self, dir: InodeId, name: &Name) -> Option<InodeId> {
        let state = self.state.as_ref()?.lock();
        match state.acceptance {
            Acceptance::Accepted { .. } => state.values.named_inode(dir, name),
            _ => None,
        }
    }

    /// The lease that covers the file's data now, if no change of this client to it is under way.
    pub fn data_lease(&self, ino: InodeId) -> Option<LeaseNumber> {
        let state = self.state.as_ref()?.lock();
        match state.acceptance {
            Acceptance::Accepted { .. } => state.values.data_lease(ino),
            _ => None,
        }
    }

    /// The server revokes leases. When this returns, nothing is answered by them any more. Returns the inodes whose attributes may
    /// change now.
    pub fn revoke(&self, revocation: &LeaseRevocation) -> AffectedInodes {
        tracing::trace!(target: "walk", file = file!(), "revoke");
        let Some(state) = &self.state else {
            return AffectedInodes::These(Vec::new());
        };
        let mut state = state.lock();
        let dropped = (revocation.keys.iter()).map(|key| state.values.revoke(*key));
        let dropped: usize = dropped.sum();
        let inodes = state.values.inodes_of_revocation(&revocation.keys);
        drop(state);
        Counters::add(&self.counters.lease_revocations, 1);
        Counters::add(&self.counters.revoked_values, dropped as u64);
        inodes
    }

    pub fn status(&self) -> LeaseCacheStatus {
        let Some(state) = &self.state else {
            return LeaseCacheStatus::default();
        };
        let state = state.lock();
        LeaseCacheStatus {
            accepted: matches!(state.acceptance, Acceptance::Accepted { .. }),
            values: state.values.len(),
        }
    }
}

impl Acceptance {
    /// The caller as the server sees it; None without leases.
    fn caller(self, caller: &Caller) -> Option<Cow<'_, Caller>> {
        let Acceptance::Accepted { root_squashed } = self else {
            return None;
        };
        let mut caller = Cow::Borrowed(caller);
        if root_squashed {
            caller.to_mut().squash_root();
        }
        Some(caller)
    }
}
