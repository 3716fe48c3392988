//! The locks of one session at one server instance, and applying the server's changes in their order. Pure.

use gupfs_namespace::locks::FileLocks;
use gupfs_proto::lock::{AdvisoryLock, LockHolder, LockOutcome, LockRange, LockReply, LockRequest};
use gupfs_proto::{FsError, InodeId, OwnerEpoch, SessionId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(super) struct LockTable {
    /// The session of these locks, and the server instance.
    pub session: SessionId,
    pub instance: OwnerEpoch,
    /// The locks are being reclaimed from another instance: replies of the former are ignored.
    pub frozen: bool,
    pub files: BTreeMap<InodeId, FileLocks>,
    /// Changes up to this grant sequence are applied.
    pub grant_seq: u64,
    /// Changes that arrived before an earlier grant sequence.
    pub out_of_order: BTreeMap<u64, LockChange>,
    pub last_request: u64,
    /// Requests without a reply yet, by number.
    pub pending: BTreeMap<u64, LockRequest>,
    /// Requests that wait in the server's queue or are about to, by number.
    pub waiters: BTreeMap<u64, LockWaiter>,
    /// By open file: the holders that took locks through it.
    pub holders_by_file: BTreeMap<u64, BTreeSet<LockHolder>>,
}

#[derive(Clone, Copy)]
pub(super) struct LockWaiter {
    pub lock: AdvisoryLock,
    pub granted: bool,
}

impl LockTable {
    /// Whether a pending request frees locks that this request takes.
    pub fn is_being_freed(&self, request: &LockRequest) -> bool {
        let LockRequest::Acquire { lock, .. } = request else {
            return false;
        };
        self.pending.values().any(|pending| match pending {
            LockRequest::Release { holder, range, .. } => {
                *holder == lock.holder && range.overlaps(lock.range)
            }
            _ => false,
        })
    }

    pub fn is_current(&self, session: SessionId, instance: OwnerEpoch) -> bool {
        self.session == session && self.instance == instance && !self.frozen
    }

    pub fn record_grant(&mut self, acquire: u64, grant_seq: u64) {
        // A request that is not listed has been granted before.
        if let Some(waiting) = self.waiters.get_mut(&acquire) {
            waiting.granted = true;
            let lock = waiting.lock;
            self.apply_in_order(grant_seq, LockChange::Taken(lock));
        }
    }

    pub fn apply_in_order(&mut self, grant_seq: u64, change: LockChange) {
        if grant_seq > self.grant_seq {
            self.out_of_order.insert(grant_seq, change);
        }
        while let Some(change) = self.out_of_order.remove(&(self.grant_seq + 1)) {
            self.grant_seq += 1;
            self.apply(change);
        }
    }

    pub fn apply(&mut self, change: LockChange) {
        let session = self.session;
        let ino = match change {
            LockChange::Nothing => return,
            LockChange::Taken(lock) | LockChange::NotTaken(lock) => lock.holder.ino,
            LockChange::Freed(holder, _) => holder.ino,
        };
        let locks = self.files.entry(ino).or_default();
        match change {
            LockChange::Nothing => {}
            LockChange::Taken(lock) => locks.acquire(session, lock),
            LockChange::NotTaken(lock) => locks.release_for_conversion(session, &lock),
            LockChange::Freed(holder, range) => locks.release(session, holder, range),
        }
        if locks.is_empty() {
            self.files.remove(&ino);
        }
    }
}

/// The change to the session's locks at one grant sequence.
#[derive(Clone, Copy, Debug)]
pub(super) enum LockChange {
    Nothing,
    Taken(AdvisoryLock),
    /// Not taken; but a flock of the other mode, which the request was to convert, is freed.
    NotTaken(AdvisoryLock),
    Freed(LockHolder, LockRange),
}

impl LockChange {
    pub fn of(request: &LockRequest, reply: &LockReply) -> LockChange {
        match (request, &reply.outcome) {
            (LockRequest::Acquire { lock, .. }, Ok(LockOutcome::Done)) => LockChange::Taken(*lock),
            // The server refused it before it changed anything.
            (LockRequest::Acquire { .. }, Err(FsError::TooManyLocks(_))) => LockChange::Nothing,
            (LockRequest::Acquire { lock, .. }, _) => LockChange::NotTaken(*lock),
            (LockRequest::Release { holder, range, .. }, Ok(_)) => {
                LockChange::Freed(*holder, *range)
            }
            _ => LockChange::Nothing,
        }
    }

    pub fn concerns(&self, wanted: LockHolder) -> bool {
        match self {
            LockChange::Nothing => false,
            LockChange::Taken(lock) | LockChange::NotTaken(lock) => lock.holder == wanted,
            LockChange::Freed(holder, _) => *holder == wanted,
        }
    }
}
