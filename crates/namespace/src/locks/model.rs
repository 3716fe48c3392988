//! The locks against a model of bytes; what is asked twice, who waits, who would wait for ever.

use super::{FileLocks, Grant, Table};
use gupfs_proto::lock::{Ask, Extent, Holder, Kind, Lock, Mode, Order, Said, Word};
use gupfs_proto::{InodeId, Refusal, SessionId};
use proptest::prelude::*;
use std::collections::BTreeMap;

const INO: InodeId = InodeId(5);
const BYTES: u64 = 12;

/// Whose, which kind, which byte: the mode.
type Bytes = BTreeMap<(u64, u64, Kind, u64), Mode>;

#[derive(Clone, Copy, Debug)]
struct Step {
    session: u64,
    owner: u64,
    kind: Kind,
    first: u64,
    len: u64,
    /// None frees.
    mode: Option<Mode>,
}

impl Step {
    fn extent(&self) -> Extent {
        let last = (self.first + self.len).min(BYTES - 1);
        match self.kind {
            Kind::Flock => Extent::WHOLE,
            Kind::Record => Extent {
                first: self.first,
                last,
            },
        }
    }

    fn lock(&self, mode: Mode) -> Lock {
        Lock {
            holder: Holder {
                ino: INO,
                kind: self.kind,
                owner: self.owner,
            },
            extent: self.extent(),
            mode,
            pid: 1,
        }
    }

    /// The bytes that the model looks at: a flock is one of byte 0.
    fn bytes(&self) -> std::ops::RangeInclusive<u64> {
        match self.kind {
            Kind::Flock => 0..=0,
            Kind::Record => self.extent().first..=self.extent().last,
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![
        Just(None),
        Just(Some(Mode::Shared)),
        Just(Some(Mode::Exclusive))
    ];
    let kind = prop_oneof![3 => Just(Kind::Record), 1 => Just(Kind::Flock)];
    (0..2_u64, 0..2_u64, kind, 0..BYTES, 0..BYTES, mode).prop_map(
        |(session, owner, kind, first, len, mode)| Step {
            session,
            owner,
            kind,
            first,
            len,
            mode,
        },
    )
}

/// What the bytes say of a step; they are changed as it changes them.
fn by_bytes(bytes: &mut Bytes, step: &Step) -> bool {
    let key = |byte| (step.session, step.owner, step.kind, byte);
    let Some(mode) = step.mode else {
        for byte in step.bytes() {
            bytes.remove(&key(byte));
        }
        return true;
    };
    if step.kind == Kind::Flock && bytes.get(&key(0)).is_some_and(|had| *had != mode) {
        bytes.remove(&key(0));
    }
    let excludes = |(at, had): (&(u64, u64, Kind, u64), &Mode)| {
        at.2 == step.kind
            && step.bytes().contains(&at.3)
            && (at.0, at.1) != (step.session, step.owner)
            && (mode == Mode::Exclusive || *had == Mode::Exclusive)
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
        let Lock {
            holder,
            extent,
            mode,
            ..
        } = held.lock;
        let last = match holder.kind {
            Kind::Flock => 0,
            Kind::Record => extent.last,
        };
        for byte in extent.first..=last {
            let key = (held.session.0, holder.owner, holder.kind, byte);
            assert_eq!(bytes.insert(key, mode), None, "two locks of one byte");
        }
    }
    bytes
}

/// Neighbours of one mode are one lock.
fn assert_joined(locks: &FileLocks) {
    for one in locks.all() {
        let apart = |two: &super::Held| {
            (two.session, two.lock.holder, two.lock.mode)
                != (one.session, one.lock.holder, one.lock.mode)
                || one.lock.extent.last + 1 != two.lock.extent.first
        };
        assert!(locks.all().iter().all(apart), "{locks:?}");
    }
}

/// A table with somebody who asks.
#[derive(Default)]
struct Desk {
    table: Table,
    number: u64,
    grants: Vec<Grant>,
}

impl Desk {
    fn order(&mut self) -> Order {
        self.number += 1;
        Order {
            number: self.number,
            answered_below: self.number,
        }
    }

    fn ask(&mut self, session: u64, ask: Ask) -> Said {
        let asked = self.table.ask(SessionId(session), &ask, 0);
        let (said, mut grants) = asked.unwrap();
        self.grants.append(&mut grants);
        said
    }

    fn take(&mut self, session: u64, lock: Lock, waits: bool) -> Result<Word, Refusal> {
        let order = self.order();
        self.ask(session, Ask::Take { order, lock, waits }).word
    }

    fn free(&mut self, session: u64, lock: Lock) {
        let order = self.order();
        let (holder, extent) = (lock.holder, lock.extent);
        let said = self.ask(
            session,
            Ask::Free {
                order,
                holder,
                extent,
            },
        );
        assert_eq!(said.word, Ok(Word::Done));
    }

    /// Who got what they waited for since the last call, by number.
    fn granted(&mut self) -> Vec<u64> {
        let grants = std::mem::take(&mut self.grants);
        grants.iter().map(|grant| grant.take).collect()
    }
}

fn lock(ino: u64, owner: u64, (first, last): (u64, u64), mode: Mode) -> Lock {
    Lock {
        holder: Holder {
            ino: InodeId(ino),
            kind: Kind::Record,
            owner,
        },
        extent: Extent { first, last },
        mode,
        pid: owner as u32,
    }
}

use Mode::{Exclusive, Shared};

proptest! {
    #[test]
    fn locks_are_what_their_bytes_say(steps in proptest::collection::vec(step(), 1..60)) {
        let (mut desk, mut bytes) = (Desk::default(), Bytes::new());
        for step in &steps {
            let allowed = by_bytes(&mut bytes, step);
            match step.mode {
                Some(mode) => {
                    let word = desk.take(step.session, step.lock(mode), false);
                    let expected = if allowed { Ok(Word::Done) } else { Err(Refusal::WouldBlock) };
                    prop_assert_eq!(word, expected);
                }
                None => desk.free(step.session, step.lock(Shared)),
            }
            let none = FileLocks::default();
            let locks = desk.table.locks_of(INO).unwrap_or(&none);
            prop_assert_eq!(bytes_of(locks), bytes.clone());
            assert_joined(locks);
            prop_assert_eq!(desk.table.len(), locks.len());
        }
        for session in 0..2 {
            desk.table.end(SessionId(session));
        }
        prop_assert!(desk.table.is_empty() && desk.table.locks_of(INO).is_none());
    }

    /// Whoever waits has something in the way; what is free goes to those that wait for it.
    #[test]
    fn nobody_waits_for_what_is_free(steps in proptest::collection::vec(step(), 1..60)) {
        let mut desk = Desk::default();
        for step in &steps {
            match step.mode {
                Some(mode) => drop(desk.take(step.session, step.lock(mode), true)),
                None => desk.free(step.session, step.lock(Shared)),
            }
            for waiter in desk.table.waiters() {
                prop_assert!(desk.table.conflict(waiter.session, waiter.lock).is_some());
            }
        }
    }

    #[test]
    fn what_is_weakened_is_no_more_than_before_or_after(steps in proptest::collection::vec(step(), 1..20), last in step()) {
        let mut locks = FileLocks::default();
        let session = SessionId(0);
        for step in &steps {
            if let Some(mode) = step.mode {
                locks.give_up_to_convert(session, &step.lock(mode));
                locks.take(session, step.lock(mode));
            }
        }
        let lock = last.lock(last.mode.unwrap_or(Shared));
        let (mut weak, mut after) = (locks.clone(), locks.clone());
        weak.weaken(session, lock);
        after.give_up_to_convert(session, &lock);
        after.take(session, lock);
        let (weak, before, after) = (bytes_of(&weak), bytes_of(&locks), bytes_of(&after));
        for (byte, mode) in weak {
            prop_assert!(before.get(&byte).is_some_and(|had| *had >= mode));
            prop_assert!(after.get(&byte).is_some_and(|has| *has >= mode));
        }
    }
}

#[test]
fn a_request_that_comes_again_is_not_done_again() {
    let mut desk = Desk::default();
    let mine = lock(5, 1, (0, 9), Exclusive);
    let order = Order {
        number: 3,
        answered_below: 3,
    };
    let take = Ask::Take {
        order,
        lock: mine,
        waits: false,
    };
    let said = desk.ask(1, take);
    assert_eq!(said.turn, 1);
    assert_eq!(desk.ask(1, take), said);
    let free = Ask::Free {
        order: Order {
            number: 4,
            answered_below: 4,
        },
        holder: mine.holder,
        extent: Extent::WHOLE,
    };
    assert_eq!(desk.ask(1, free).turn, 2);
    // A copy of the first that was late takes nothing.
    assert!(desk.table.ask(SessionId(1), &take, 0).is_err());
    assert!(desk.table.is_empty());
    let again = Ask::Take {
        order: Order {
            number: 5,
            answered_below: 4,
        },
        lock: mine,
        waits: false,
    };
    assert_eq!(desk.ask(1, again).turn, 3);
    // Nor does a copy of the second free what was taken after it, though its answer is kept.
    assert_eq!(desk.ask(1, free).turn, 2);
    assert_eq!(desk.table.len(), 1);
    // Another session's numbers are its own.
    let other = lock(5, 1, (0, 9), Exclusive);
    let take = Ask::Take {
        order,
        lock: other,
        waits: false,
    };
    assert_eq!(desk.ask(2, take).word, Err(Refusal::WouldBlock));
}

#[test]
fn who_waits_gets_it_in_turn_and_who_gives_up_is_passed() {
    let mut desk = Desk::default();
    let all = (0, 9);
    assert_eq!(
        desk.take(1, lock(5, 1, all, Exclusive), true),
        Ok(Word::Done)
    );
    assert_eq!(
        desk.take(2, lock(5, 1, all, Exclusive), true),
        Ok(Word::Waits)
    );
    let second = desk.number;
    assert_eq!(desk.take(2, lock(5, 2, all, Shared), true), Ok(Word::Waits));
    let third = desk.number;
    assert_eq!(
        desk.take(3, lock(5, 1, (5, 5), Shared), true),
        Ok(Word::Waits)
    );
    let fourth = desk.number;
    let order = desk.order();
    let cancel = Ask::Cancel {
        order,
        take: second,
    };
    assert_eq!(desk.ask(2, cancel).word, Ok(Word::Done));
    desk.free(1, lock(5, 1, all, Shared));
    assert_eq!(desk.granted(), [third, fourth]);
    // Too late: it has it.
    let order = desk.order();
    let cancel = Ask::Cancel { order, take: third };
    let said = desk.ask(2, cancel);
    assert!(
        matches!(said.word, Ok(Word::WasGranted(turn)) if turn < said.turn),
        "{said:?}"
    );
    // What a session leaves goes to the others.
    assert_eq!(
        desk.take(1, lock(5, 1, all, Exclusive), true),
        Ok(Word::Waits)
    );
    let fifth = desk.number;
    desk.grants = desk.table.end(SessionId(2));
    assert_eq!(desk.granted(), []);
    desk.grants = desk.table.end(SessionId(3));
    assert_eq!(desk.granted(), [fifth]);
}

#[test]
fn a_flock_that_is_converted_is_free_in_between() {
    let mut desk = Desk::default();
    let flock = |owner, mode| Lock {
        holder: Holder {
            ino: INO,
            kind: Kind::Flock,
            owner,
        },
        extent: Extent::WHOLE,
        mode,
        pid: 1,
    };
    assert_eq!(desk.take(1, flock(1, Shared), false), Ok(Word::Done));
    assert_eq!(desk.take(2, flock(1, Shared), false), Ok(Word::Done));
    // Records are another matter.
    assert_eq!(
        desk.take(2, lock(5, 1, (0, 9), Exclusive), false),
        Ok(Word::Done)
    );
    // It asks for more than it can have, and keeps nothing.
    assert_eq!(
        desk.take(1, flock(1, Exclusive), false),
        Err(Refusal::WouldBlock)
    );
    assert_eq!(desk.take(2, flock(1, Exclusive), false), Ok(Word::Done));
}

#[test]
fn who_would_wait_for_ever_is_told() {
    let mut desk = Desk::default();
    for (session, ino) in [(1, 5), (2, 6), (3, 7)] {
        assert_eq!(
            desk.take(session, lock(ino, 1, (0, 9), Exclusive), true),
            Ok(Word::Done)
        );
    }
    assert_eq!(
        desk.take(1, lock(6, 1, (0, 0), Shared), true),
        Ok(Word::Waits)
    );
    assert_eq!(
        desk.take(2, lock(7, 1, (9, 9), Shared), true),
        Ok(Word::Waits)
    );
    // Whoever is in nobody's way may wait.
    assert_eq!(
        desk.take(3, lock(5, 2, (0, 0), Shared), true),
        Ok(Word::Waits)
    );
    assert_eq!(
        desk.take(3, lock(5, 1, (0, 0), Shared), true),
        Err(Refusal::Deadlock)
    );
    desk.free(2, lock(6, 1, (0, 9), Shared));
    assert_eq!(desk.granted().len(), 1);
    assert_eq!(
        desk.take(3, lock(5, 1, (0, 0), Shared), true),
        Ok(Word::Waits)
    );
}

#[test]
fn who_asks_is_told_what_is_in_the_way() {
    let mut desk = Desk::default();
    desk.take(1, lock(5, 7, (10, 19), Exclusive), false)
        .unwrap();
    let wanted = lock(5, 8, (0, 15), Shared);
    let found = |desk: &mut Desk, session| desk.ask(session, Ask::Test { lock: wanted }).word;
    let theirs = lock(5, 7, (10, 19), Exclusive);
    assert_eq!(found(&mut desk, 1), Ok(Word::InTheWay(Some(theirs))));
    let unknown = Lock { pid: 0, ..theirs };
    assert_eq!(found(&mut desk, 2), Ok(Word::InTheWay(Some(unknown))));
    desk.free(1, lock(5, 7, (0, 15), Shared));
    assert_eq!(found(&mut desk, 2), Ok(Word::InTheWay(None)));
}

#[test]
fn what_is_said_again_after_a_start_excludes_others() {
    let mut desk = Desk::default();
    let mine = lock(5, 7, (10, 19), Exclusive);
    assert_eq!(desk.table.claim(SessionId(1), mine), Ok(()));
    assert_eq!(desk.table.claim(SessionId(1), mine), Ok(()));
    assert!(desk.table.claim(SessionId(2), mine).is_err());
    assert_eq!(desk.take(2, mine, false), Err(Refusal::WouldBlock));
    assert_eq!(desk.table.len(), 1);
}

#[test]
fn there_is_an_end_to_locks() {
    let mut desk = Desk::default();
    let most = super::limits::LOCKS_OF_FILE as u64;
    for byte in 0..most {
        let one = lock(5, 1, (2 * byte, 2 * byte), Shared);
        if byte % 512 == 0 || byte + 1 == most {
            desk.take(1, one, false).unwrap();
        } else {
            desk.table.claim(SessionId(1), one).unwrap();
        }
    }
    let refused = desk.take(2, lock(5, 2, (1, 1), Shared), false);
    assert!(matches!(refused, Err(Refusal::TooManyLocks(_))));
    // Nor can more have been held before; what was held may be said twice.
    let last = lock(5, 1, (2 * most - 2, 2 * most - 2), Shared);
    assert_eq!(desk.table.claim(SessionId(1), last), Ok(()));
    let more = |byte| lock(5, 1, (2 * byte, 2 * byte), Shared);
    let claims: Vec<_> = (most..most + 2)
        .map(|byte| desk.table.claim(SessionId(1), more(byte)).is_ok())
        .collect();
    assert_eq!(claims, [true, false]);
    assert_eq!(
        desk.take(2, lock(6, 2, (1, 1), Shared), false),
        Ok(Word::Done)
    );
}
