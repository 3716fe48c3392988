//! A session's side of the lock table: numbers requests and collects grants.

use crate::locks::{LockGrant, LockTable};
use gupfs_proto::lock::{
    AdvisoryLock, LockFamily, LockHolder, LockMode, LockOutcome, LockRange, LockReply, LockRequest,
    LockSeq,
};
use gupfs_proto::{FsError, InodeId, SessionId};

/// A lock table, and the next request number.
#[derive(Default)]
pub struct LockTester {
    pub table: LockTable,
    pub number: u64,
    pub grants: Vec<LockGrant>,
}

impl LockTester {
    pub fn next_seq(&mut self) -> LockSeq {
        self.number += 1;
        LockSeq {
            number: self.number,
            replied_below: self.number,
        }
    }

    pub fn request(&mut self, session: u64, request: LockRequest) -> LockReply {
        let result = self.table.request(SessionId(session), &request, 0);
        let (reply, mut grants) = result.unwrap();
        self.grants.append(&mut grants);
        reply
    }

    pub fn acquire(
        &mut self,
        session: u64,
        lock: AdvisoryLock,
        wait: bool,
    ) -> Result<LockOutcome, FsError> {
        let seq = self.next_seq();
        self.request(session, LockRequest::Acquire { seq, lock, wait })
            .outcome
    }

    pub fn release(&mut self, session: u64, lock: AdvisoryLock) {
        let seq = self.next_seq();
        let (holder, range) = (lock.holder, lock.range);
        let reply = self.request(session, LockRequest::Release { seq, holder, range });
        assert_eq!(reply.outcome, Ok(LockOutcome::Done));
    }

    /// The waiting requests that were granted since the last call, by number.
    pub fn granted(&mut self) -> Vec<u64> {
        let grants = std::mem::take(&mut self.grants);
        grants.iter().map(|grant| grant.acquire_number).collect()
    }
}

pub fn lock(ino: u64, owner: u64, (first, last): (u64, u64), mode: LockMode) -> AdvisoryLock {
    AdvisoryLock {
        holder: LockHolder {
            ino: InodeId(ino),
            family: LockFamily::Record,
            owner,
        },
        range: LockRange { first, last },
        mode,
        pid: owner as u32,
    }
}
