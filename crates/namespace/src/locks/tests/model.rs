//! The locks of a file compared with a model that has one lock per byte.

use super::tester::LockTester;
use crate::locks::{FileLocks, HeldLock};
use gupfs_proto::lock::{AdvisoryLock, LockFamily, LockHolder, LockMode, LockOutcome, LockRange};
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
    family: LockFamily,
    first: u64,
    len: u64,
    /// None releases the bytes.
    mode: Option<LockMode>,
}

impl LockStep {
    fn range(&self) -> LockRange {
        let last = (self.first + self.len).min(BYTES - 1);
        match self.family {
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
                family: self.family,
                owner: self.owner,
            },
            range: self.range(),
            mode,
            pid: 1,
        }
    }

    /// The bytes in the model: a flock is a lock of byte 0.
    fn bytes(&self) -> std::ops::RangeInclusive<u64> {
        match self.family {
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
    let family = prop_oneof![3 => Just(LockFamily::Record), 1 => Just(LockFamily::Flock)];
    (0..2_u64, 0..2_u64, family, 0..BYTES, 0..BYTES, mode).prop_map(
        |(session, owner, family, first, len, mode)| LockStep {
            session,
            owner,
            family,
            first,
            len,
            mode,
        },
    )
}

/// Applies a step to the model; returns whether the lock is granted.
fn apply_to_bytes(bytes: &mut Bytes, step: &LockStep) -> bool {
    let key = |byte| (step.session, step.owner, step.family, byte);
    let Some(mode) = step.mode else {
        for byte in step.bytes() {
            bytes.remove(&key(byte));
        }
        return true;
    };
    if step.family == LockFamily::Flock && bytes.get(&key(0)).is_some_and(|had| *had != mode) {
        bytes.remove(&key(0));
    }
    let excludes = |(at, had): (&(u64, u64, LockFamily, u64), &LockMode)| {
        at.2 == step.family
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
fn assert_merged(locks: &FileLocks) {
    for one in locks.all() {
        let apart = |two: &HeldLock| {
            (two.session, two.lock.holder, two.lock.mode)
                != (one.session, one.lock.holder, one.lock.mode)
                || one.lock.range.last + 1 != two.lock.range.first
        };
        assert!(locks.all().iter().all(apart), "{locks:?}");
    }
}

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
                None => tester.release(step.session, step.lock(LockMode::Shared)),
            }
            let none = FileLocks::default();
            let locks = tester.table.locks_of(INO).unwrap_or(&none);
            prop_assert_eq!(bytes_of(locks), bytes.clone());
            assert_merged(locks);
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
                None => tester.release(step.session, step.lock(LockMode::Shared)),
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
        let lock = last.lock(last.mode.unwrap_or(LockMode::Shared));
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
