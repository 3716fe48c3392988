//! Lock requests: retransmissions, the order of grants, deadlocks, limits.

use super::tester::{LockTester, lock};
use crate::locks::limits;
use gupfs_proto::lock::LockMode::{Exclusive, Shared};
use gupfs_proto::lock::{
    AdvisoryLock, LockFamily, LockHolder, LockOutcome, LockRange, LockRequest, LockSeq,
};
use gupfs_proto::{FsError, InodeId, SessionId};

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
            ino: InodeId(5),
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
    let most = limits::LOCKS_OF_FILE as u64;
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
