//! Tests of the locks: against a model with one lock per byte; retransmissions, waiting requests, deadlocks.

use super::{FileLocks, LockGrant, LockTable};
use gupfs_proto::lock::{
    AdvisoryLock, LockFamily, LockHolder, LockMode, LockOutcome, LockRange, LockReply, LockRequest,
    LockSeq,
};
use gupfs_proto::{FsError, InodeId, SessionId};
use proptest::prelude::*;
use std::collections::BTreeMap;

const INO: InodeId = InodeId(5);
const BYTES: u64 = 12;

/// The mode by (session, owner, family, byte).
type Bytes = BTreeMap<(u64, u64, LockFamily, u64), LockMode>;

#[derive(Clone, Copy, Debug)]
struct LockStep {
    session: u64,
    owner: u64,
    kind: LockFamily,
    first: u64,
    len: u64,
    /// None releases the bytes.
    mode: Option<LockMode>,
}

impl LockStep {
    fn range(&self) -> LockRange {
        let last = (self.first + self.len).min(BYTES - 1);
        match self.kind {
            LockFamily::Flock => LockRange::WHOLE,
            LockFamily::Record => LockRange {
                first: self.first,
                last,
            },
        }
    }

    fn lock(&self, mode: LockMode) -> AdvisoryLock {
        AdvisoryLock {
            holder: LockHolder {
                ino: INO,
                family: self.kind,
                owner: self.owner,
            },
            range: self.range(),
            mode,
            pid: 1,
        }
    }

    /// The bytes in the model: a flock is a lock of byte 0.
    fn bytes(&self) -> std::ops::RangeInclusive<u64> {
        match self.kind {
            LockFamily::Flock => 0..=0,
            LockFamily::Record => self.range().first..=self.range().last,
        }
    }
}

fn step() -> impl Strategy<Value = LockStep> {
    let mode = prop_oneof![
        Just(None),
        Just(Some(LockMode::Shared)),
        Just(Some(LockMode::Exclusive))
    ];
    let kind = prop_oneof![3 => Just(LockFamily::Record), 1 => Just(LockFamily::Flock)];
    (0..2_u64, 0..2_u64, kind, 0..BYTES, 0..BYTES, mode).prop_map(
        |(session, owner, kind, first, len, mode)| LockStep {
            session,
            owner,
            kind,
            first,
            len,
            mode,
        },
    )
}

/// Applies a step to the model; returns whether the lock is granted.
fn apply_to_bytes(bytes: &mut Bytes, step: &LockStep) -> bool {
    let key = |byte| (step.session, step.owner, step.kind, byte);
    let Some(mode) = step.mode else {
        for byte in step.bytes() {
            bytes.remove(&key(byte));
        }
        return true;
    };
    if step.kind == LockFamily::Flock && bytes.get(&key(0)).is_some_and(|had| *had != mode) {
        bytes.remove(&key(0));
    }
    let excludes = |(at, had): (&(u64, u64, LockFamily, u64), &LockMode)| {
        at.2 == step.kind
            && step.bytes().contains(&at.3)
            && (at.0, at.1) != (step.session, step.owner)
            && (mode == LockMode::Exclusive || *had == LockMode::Exclusive)
    };
    if bytes.iter().any(excludes) {
        return false;
    }
    for byte in step.bytes() {
        bytes.insert(key(byte), mode);
    }
    true
}

fn bytes_of(locks: &FileLocks) -> Bytes {
    let mut bytes = Bytes::new();
    for held in locks.all() {
        let AdvisoryLock {
            holder,
            range,
            mode,
            ..
        } = held.lock;
        let last = match holder.family {
            LockFamily::Flock => 0,
            LockFamily::Record => range.last,
        };
        for byte in range.first..=last {
            let key = (held.session.0, holder.owner, holder.family, byte);
            assert_eq!(bytes.insert(key, mode), None, "two locks of one byte");
        }
    }
    bytes
}

/// Adjacent locks of one mode are merged.
fn assert_joined(locks: &FileLocks) {
    for one in locks.all() {
        let apart = |two: &super::HeldLock| {
            (two.session, two.lock.holder, two.lock.mode)
                != (one.session, one.lock.holder, one.lock.mode)
                || one.lock.range.last + 1 != two.lock.range.first
        };
        assert!(locks.all().iter().all(apart), "{locks:?}");
    }
}

/// A lock table, and the next request number.
#[derive(Default)]
struct LockTester {
    table: LockTable,
    number: u64,
    grants: Vec<LockGrant>,
}

impl LockTester {
    fn next_seq(&mut self) -> LockSeq {
        self.number += 1;
        LockSeq {
            number: self.number,
            replied_below: self.number,
        }
    }

    fn request(&mut self, session: u64, request: LockRequest) -> LockReply {
        let result = self.table.request(SessionId(session), &request, 0);
        let (reply, mut grants) = result.unwrap();
        self.grants.append(&mut grants);
        reply
    }

    fn acquire(
        &mut self,
        session: u64,
        lock: AdvisoryLock,
        wait: bool,
    ) -> Result<LockOutcome, FsError> {
        let seq = self.next_seq();
        self.request(session, LockRequest::Acquire { seq, lock, wait })
            .outcome
    }

    fn release(&mut self, session: u64, lock: AdvisoryLock) {
        let seq = self.next_seq();
        let (holder, range) = (lock.holder, lock.range);
        let reply = self.request(session, LockRequest::Release { seq, holder, range });
        assert_eq!(reply.outcome, Ok(LockOutcome::Done));
    }

    /// The waiting requests that were granted since the last call, by number.
    fn granted(&mut self) -> Vec<u64> {
        let grants = std::mem::take(&mut self.grants);
        grants.iter().map(|grant| grant.acquire_number).collect()
    }
}

fn lock(ino: u64, owner: u64, (first, last): (u64, u64), mode: LockMode) -> AdvisoryLock {
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

use LockMode::{Exclusive, Shared};

proptest! {
    #[test]
    fn locks_match_the_per_byte_model(steps in proptest::collection::vec(step(), 1..60)) {
        let (mut tester, mut bytes) = (LockTester::default(), Bytes::new());
        for step in &steps {
            let allowed = apply_to_bytes(&mut bytes, step);
            match step.mode {
                Some(mode) => {
                    let outcome = tester.acquire(step.session, step.lock(mode), false);
                    let expected = if allowed { Ok(LockOutcome::Done) } else { Err(FsError::WouldBlock) };
                    prop_assert_eq!(outcome, expected);
                }
                None => tester.release(step.session, step.lock(Shared)),
            }
            let none = FileLocks::default();
            let locks = tester.table.locks_of(INO).unwrap_or(&none);
            prop_assert_eq!(bytes_of(locks), bytes.clone());
            assert_joined(locks);
            prop_assert_eq!(tester.table.len(), locks.len());
        }
        for session in 0..2 {
            tester.table.end_session(SessionId(session));
        }
        prop_assert!(tester.table.is_empty() && tester.table.locks_of(INO).is_none());
    }

    /// Every waiting request has a conflicting lock; a range without conflict is granted.
    #[test]
    fn no_request_waits_for_a_free_range(steps in proptest::collection::vec(step(), 1..60)) {
        let mut tester = LockTester::default();
        for step in &steps {
            match step.mode {
                Some(mode) => drop(tester.acquire(step.session, step.lock(mode), true)),
                None => tester.release(step.session, step.lock(Shared)),
            }
            for waiter in tester.table.waiters() {
                prop_assert!(tester.table.conflict(waiter.session, waiter.lock).is_some());
            }
        }
    }

    #[test]
    fn weakened_locks_are_no_stronger_than_before_or_after(steps in proptest::collection::vec(step(), 1..20), last in step()) {
        let mut locks = FileLocks::default();
        let session = SessionId(0);
        for step in &steps {
            if let Some(mode) = step.mode {
                locks.release_for_conversion(session, &step.lock(mode));
                locks.acquire(session, step.lock(mode));
            }
        }
        let lock = last.lock(last.mode.unwrap_or(Shared));
        let (mut weak, mut after) = (locks.clone(), locks.clone());
        weak.weaken(session, lock);
        after.release_for_conversion(session, &lock);
        after.acquire(session, lock);
        let (weak, before, after) = (bytes_of(&weak), bytes_of(&locks), bytes_of(&after));
        for (byte, mode) in weak {
            prop_assert!(before.get(&byte).is_some_and(|had| *had >= mode));
            prop_assert!(after.get(&byte).is_some_and(|has| *has >= mode));
        }
    }
}

#[test]
fn a_retransmitted_request_is_not_executed_again() {
    let mut tester = LockTester::default();
    let lock_of_1 = lock(5, 1, (0, 9), Exclusive);
    let seq = LockSeq {
        number: 3,
        replied_below: 3,
    };
    let acquire = LockRequest::Acquire {
        seq,
        lock: lock_of_1,
        wait: false,
    };
    let reply = tester.request(1, acquire);
    assert_eq!(reply.grant_seq, 1);
    assert_eq!(tester.request(1, acquire), reply);
    let free = LockRequest::Release {
        seq: LockSeq {
            number: 4,
            replied_below: 4,
        },
        holder: lock_of_1.holder,
        range: LockRange::WHOLE,
    };
    assert_eq!(tester.request(1, free).grant_seq, 2);
    // A late copy of the first request acquires nothing.
    assert!(tester.table.request(SessionId(1), &acquire, 0).is_err());
    assert!(tester.table.is_empty());
    let again = LockRequest::Acquire {
        seq: LockSeq {
            number: 5,
            replied_below: 4,
        },
        lock: lock_of_1,
        wait: false,
    };
    assert_eq!(tester.request(1, again).grant_seq, 3);
    // Nor does a copy of the second release the lock that was acquired after it, though its reply is stored.
    assert_eq!(tester.request(1, free).grant_seq, 2);
    assert_eq!(tester.table.len(), 1);
    // Each session has its own numbers.
    let other = lock(5, 1, (0, 9), Exclusive);
    let acquire = LockRequest::Acquire {
        seq,
        lock: other,
        wait: false,
    };
    assert_eq!(tester.request(2, acquire).outcome, Err(FsError::WouldBlock));
}

#[test]
fn waiting_requests_are_granted_in_order_and_cancelled_ones_are_skipped() {
    let mut tester = LockTester::default();
    let all = (0, 9);
    assert_eq!(
        tester.acquire(1, lock(5, 1, all, Exclusive), true),
        Ok(LockOutcome::Done)
    );
    assert_eq!(
        tester.acquire(2, lock(5, 1, all, Exclusive), true),
        Ok(LockOutcome::Queued)
    );
    let second = tester.number;
    assert_eq!(
        tester.acquire(2, lock(5, 2, all, Shared), true),
        Ok(LockOutcome::Queued)
    );
    let third = tester.number;
    assert_eq!(
        tester.acquire(3, lock(5, 1, (5, 5), Shared), true),
        Ok(LockOutcome::Queued)
    );
    let fourth = tester.number;
    let seq = tester.next_seq();
    let cancel = LockRequest::Cancel {
        seq,
        acquire: second,
    };
    assert_eq!(tester.request(2, cancel).outcome, Ok(LockOutcome::Done));
    tester.release(1, lock(5, 1, all, Shared));
    assert_eq!(tester.granted(), [third, fourth]);
    // The cancel arrives too late: the request was granted.
    let seq = tester.next_seq();
    let cancel = LockRequest::Cancel {
        seq,
        acquire: third,
    };
    let reply = tester.request(2, cancel);
    assert!(
        matches!(reply.outcome, Ok(LockOutcome::WasGranted(seq)) if seq < reply.grant_seq),
        "{reply:?}"
    );
    // The locks of an ended session are granted to waiting requests of others.
    assert_eq!(
        tester.acquire(1, lock(5, 1, all, Exclusive), true),
        Ok(LockOutcome::Queued)
    );
    let fifth = tester.number;
    tester.grants = tester.table.end_session(SessionId(2));
    assert_eq!(tester.granted(), []);
    tester.grants = tester.table.end_session(SessionId(3));
    assert_eq!(tester.granted(), [fifth]);
}

#[test]
fn a_converted_flock_is_released_in_between() {
    let mut tester = LockTester::default();
    let flock = |owner, mode| AdvisoryLock {
        holder: LockHolder {
            ino: INO,
            family: LockFamily::Flock,
            owner,
        },
        range: LockRange::WHOLE,
        mode,
        pid: 1,
    };
    assert_eq!(
        tester.acquire(1, flock(1, Shared), false),
        Ok(LockOutcome::Done)
    );
    assert_eq!(
        tester.acquire(2, flock(1, Shared), false),
        Ok(LockOutcome::Done)
    );
    // Record locks do not conflict with flocks.
    assert_eq!(
        tester.acquire(2, lock(5, 1, (0, 9), Exclusive), false),
        Ok(LockOutcome::Done)
    );
    // The conversion is refused, and the session keeps no lock.
    assert_eq!(
        tester.acquire(1, flock(1, Exclusive), false),
        Err(FsError::WouldBlock)
    );
    assert_eq!(
        tester.acquire(2, flock(1, Exclusive), false),
        Ok(LockOutcome::Done)
    );
}

#[test]
fn a_deadlock_is_reported() {
    let mut tester = LockTester::default();
    for (session, ino) in [(1, 5), (2, 6), (3, 7)] {
        assert_eq!(
            tester.acquire(session, lock(ino, 1, (0, 9), Exclusive), true),
            Ok(LockOutcome::Done)
        );
    }
    assert_eq!(
        tester.acquire(1, lock(6, 1, (0, 0), Shared), true),
        Ok(LockOutcome::Queued)
    );
    assert_eq!(
        tester.acquire(2, lock(7, 1, (9, 9), Shared), true),
        Ok(LockOutcome::Queued)
    );
    // An owner without conflicting locks may wait.
    assert_eq!(
        tester.acquire(3, lock(5, 2, (0, 0), Shared), true),
        Ok(LockOutcome::Queued)
    );
    assert_eq!(
        tester.acquire(3, lock(5, 1, (0, 0), Shared), true),
        Err(FsError::Deadlock)
    );
    tester.release(2, lock(6, 1, (0, 9), Shared));
    assert_eq!(tester.granted().len(), 1);
    assert_eq!(
        tester.acquire(3, lock(5, 1, (0, 0), Shared), true),
        Ok(LockOutcome::Queued)
    );
}

#[test]
fn a_test_request_returns_the_first_conflicting_lock() {
    let mut tester = LockTester::default();
    tester
        .acquire(1, lock(5, 7, (10, 19), Exclusive), false)
        .unwrap();
    let wanted = lock(5, 8, (0, 15), Shared);
    let found = |tester: &mut LockTester, session| {
        tester
            .request(session, LockRequest::Test { lock: wanted })
            .outcome
    };
    let held = lock(5, 7, (10, 19), Exclusive);
    assert_eq!(found(&mut tester, 1), Ok(LockOutcome::Conflict(Some(held))));
    let unknown = AdvisoryLock { pid: 0, ..held };
    assert_eq!(
        found(&mut tester, 2),
        Ok(LockOutcome::Conflict(Some(unknown)))
    );
    tester.release(1, lock(5, 7, (0, 15), Shared));
    assert_eq!(found(&mut tester, 2), Ok(LockOutcome::Conflict(None)));
}

#[test]
fn reclaimed_locks_exclude_others() {
    let mut tester = LockTester::default();
    let lock_of_1 = lock(5, 7, (10, 19), Exclusive);
    assert_eq!(tester.table.reclaim(SessionId(1), lock_of_1), Ok(()));
    assert_eq!(tester.table.reclaim(SessionId(1), lock_of_1), Ok(()));
    assert!(tester.table.reclaim(SessionId(2), lock_of_1).is_err());
    assert_eq!(
        tester.acquire(2, lock_of_1, false),
        Err(FsError::WouldBlock)
    );
    assert_eq!(tester.table.len(), 1);
}

#[test]
fn the_number_of_locks_is_limited() {
    let mut tester = LockTester::default();
    let most = super::limits::LOCKS_OF_FILE as u64;
    for byte in 0..most {
        let one = lock(5, 1, (2 * byte, 2 * byte), Shared);
        if byte % 512 == 0 || byte + 1 == most {
            tester.acquire(1, one, false).unwrap();
        } else {
            tester.table.reclaim(SessionId(1), one).unwrap();
        }
    }
    let refused = tester.acquire(2, lock(5, 2, (1, 1), Shared), false);
    assert!(matches!(refused, Err(FsError::TooManyLocks(_))));
    // A session cannot reclaim more either; it may reclaim a lock twice.
    let last = lock(5, 1, (2 * most - 2, 2 * most - 2), Shared);
    assert_eq!(tester.table.reclaim(SessionId(1), last), Ok(()));
    let more = |byte| lock(5, 1, (2 * byte, 2 * byte), Shared);
    let claims: Vec<_> = (most..most + 2)
        .map(|byte| tester.table.reclaim(SessionId(1), more(byte)).is_ok())
        .collect();
    assert_eq!(claims, [true, false]);
    assert_eq!(
        tester.acquire(2, lock(6, 2, (1, 1), Shared), false),
        Ok(LockOutcome::Done)
    );
}
