//! The locks that are held here, as the server has them.
//!
//! Everything that the server does to a session's locks has a turn. Answers and grants may come in another order; they are done
//! here in the order of their turns, by the same rules, so that both sides have the same. What is held is said again to a server
//! that was started again, and tells what a close has to free.

use gupfs_namespace::locks::FileLocks;
use gupfs_proto::lock::{Ask, Extent, Holder, Lock, Order, Said, Word};
use gupfs_proto::meta::{Answer, Op};
use gupfs_proto::{InodeId, OwnerEpoch, Refusal, SessionId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::sync::Notify;

/// Numbers that may be open beside each other: the server keeps the answers to so many, and twice as many.
const NUMBERS_OPEN: u64 = 512;
const _: () = assert!(NUMBERS_OPEN < gupfs_namespace::locks::limits::ANSWERS_KEPT as u64);

#[derive(Default)]
pub(crate) struct Locks {
    held: Mutex<Held>,
    /// Somebody got what he waited for, or has to ask again; or a number was answered.
    pub(super) changed: Notify,
    /// A close has waited in vain, and nothing was answered since.
    slow: AtomicBool,
}

#[derive(Default)]
struct Held {
    /// Whose locks these are, and in which life of the server.
    session: SessionId,
    life: OwnerEpoch,
    /// They are being said to another life: nothing that the former said counts any more.
    leaving: bool,
    files: BTreeMap<InodeId, FileLocks>,
    /// All up to this turn is done here.
    turn: u64,
    /// What has come before its turn.
    early: BTreeMap<u64, Change>,
    number: u64,
    /// Requests that are not answered yet, by number.
    open: BTreeMap<u64, Ask>,
    /// Takes that wait in the server's queue, or are about to, by number.
    waiting: BTreeMap<u64, Waiting>,
    /// Who locked something through which open file.
    through: BTreeMap<u64, BTreeSet<Holder>>,
}

#[derive(Clone, Copy)]
struct Waiting {
    lock: Lock,
    granted: bool,
}

/// How it stands with a take that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    Waits,
    Granted,
    /// The server was started again, and knows nothing of it.
    AskAgain,
    Lost,
}

/// What a turn did.
#[derive(Clone, Copy, Debug)]
enum Change {
    Nothing,
    Taken(Lock),
    /// Not taken; a flock of the other mode is gone all the same.
    NotTaken(Lock),
    Freed(Holder, Extent),
}

impl Change {
    fn of(ask: &Ask, said: &Said) -> Change {
        match (ask, &said.word) {
            (Ask::Take { lock, .. }, Ok(Word::Done)) => Change::Taken(*lock),
            // Refused before anything was done.
            (Ask::Take { .. }, Err(Refusal::TooManyLocks(_))) => Change::Nothing,
            (Ask::Take { lock, .. }, _) => Change::NotTaken(*lock),
            (Ask::Free { holder, extent, .. }, Ok(_)) => Change::Freed(*holder, *extent),
            _ => Change::Nothing,
        }
    }

    fn is_of(&self, whose: Holder) -> bool {
        match self {
            Change::Nothing => false,
            Change::Taken(lock) | Change::NotTaken(lock) => lock.holder == whose,
            Change::Freed(holder, _) => *holder == whose,
        }
    }
}

impl Locks {
    /// A session was opened in this life of the server: it holds nothing.
    pub fn begin(&self, session: SessionId, life: OwnerEpoch) {
        let mut held = self.held.lock();
        *held = Held {
            session,
            life,
            number: held.number,
            ..Held::default()
        };
        drop(held);
        self.changed.notify_waiters();
    }

    /// The session has ended, and so has everything that it held.
    pub fn lose(&self) {
        self.begin(SessionId(0), OwnerEpoch(0));
    }

    /// What to say again. From here on it stays as it is until `arrive`.
    ///
    /// A request that is not answered yet may have been done: what it gives up may be another's by now. It is asked again.
    pub fn leave(&self) -> Vec<Lock> {
        let mut held = self.held.lock();
        let held = &mut *held;
        held.leaving = true;
        for (_, change) in std::mem::take(&mut held.early) {
            held.make(change);
        }
        let session = held.session;
        for ask in held.open.values() {
            let (ino, change): (_, &dyn Fn(&mut FileLocks)) = match ask {
                Ask::Take { lock, .. } => (lock.holder.ino, &|locks: &mut FileLocks| {
                    locks.weaken(session, *lock)
                }),
                Ask::Free { holder, extent, .. } => (holder.ino, &|locks: &mut FileLocks| {
                    locks.free(session, *holder, *extent)
                }),
                Ask::Cancel { .. } | Ask::Test { .. } => continue,
            };
            if let Some(locks) = held.files.get_mut(&ino) {
                change(locks);
            }
        }
        held.files.retain(|_, locks| !locks.is_empty());
        let all = held.files.values().flat_map(FileLocks::all);
        all.map(|held| held.lock).collect()
    }

    /// They are said. Who waited asks again.
    pub fn arrive(&self, life: OwnerEpoch) {
        let mut held = self.held.lock();
        let held = &mut *held;
        (held.life, held.leaving, held.turn) = (life, false, 0);
        let open = &held.open;
        held.waiting
            .retain(|take, waiting| waiting.granted || open.contains_key(take));
        self.changed.notify_waiters();
    }

    /// The number of a new request, when there is room for it, and when nothing of this holder is being freed that it takes: two
    /// requests under way may be done in either order, and a close may have been answered before its locks are free.
    pub(super) async fn number(&self, ask: impl Fn(Order) -> Ask) -> (u64, Ask) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut held = self.held.lock();
                let number = held.number + 1;
                let answered_below = held.open.keys().next().copied().unwrap_or(number);
                let ask = ask(Order {
                    number,
                    answered_below,
                });
                if number - answered_below < NUMBERS_OPEN && !held.is_freed_in(&ask) {
                    held.number = number;
                    held.open.insert(number, ask);
                    if let Ask::Take {
                        lock, waits: true, ..
                    } = ask
                    {
                        let granted = false;
                        held.waiting.insert(number, Waiting { lock, granted });
                    }
                    return (number, ask);
                }
            }
            changed.await;
        }
    }

    /// It is answered, or will never be.
    pub(super) fn answered(&self, number: u64) {
        self.held.lock().open.remove(&number);
        self.slow.store(false, Relaxed);
        self.changed.notify_waiters();
    }

    pub(super) fn is_slow(&self) -> bool {
        self.slow.load(Relaxed)
    }

    pub(super) fn are_slow(&self) {
        self.slow.store(true, Relaxed);
    }

    /// Of this session, and not answered yet.
    pub(super) fn is_open(&self, number: u64) -> bool {
        self.held.lock().open.contains_key(&number)
    }

    /// What the server said to `op`. False if it counts no more: it was said by a life that has ended.
    pub fn hear(
        &self,
        session: SessionId,
        life: OwnerEpoch,
        op: &Op,
        result: &Result<Answer, Refusal>,
    ) -> bool {
        let (Op::Lock(ask), Ok(Answer::Lock(said))) = (op, result) else {
            return true;
        };
        let mut held = self.held.lock();
        if !held.counts(session, life) {
            return false;
        }
        match (ask, &said.word) {
            (Ask::Cancel { take, .. }, Ok(Word::WasGranted(turn))) => {
                held.was_granted(*take, *turn);
            }
            // Asked in a session that is not the one it was meant for, it is not listed.
            (Ask::Take { order, lock, .. }, Ok(Word::Waits)) => {
                held.open.remove(&order.number);
                let (lock, granted) = (*lock, false);
                let waiting = held.waiting.entry(order.number);
                waiting.or_insert(Waiting { lock, granted });
            }
            _ => {}
        }
        if said.turn > 0 {
            held.do_in_turn(said.turn, Change::of(ask, said));
        }
        true
    }

    /// What was waited for is taken. Nothing if it is known, or counts no more.
    pub fn granted(&self, session: SessionId, life: OwnerEpoch, take: u64, turn: u64) {
        let mut held = self.held.lock();
        if held.counts(session, life) {
            held.was_granted(take, turn);
            drop(held);
            self.changed.notify_waiters();
        }
    }

    pub(super) fn standing(&self, session: SessionId, take: u64) -> Standing {
        let held = self.held.lock();
        match held.waiting.get(&take) {
            _ if held.session != session => Standing::Lost,
            Some(waiting) if waiting.granted => Standing::Granted,
            Some(_) => Standing::Waits,
            None => Standing::AskAgain,
        }
    }

    pub(super) fn is_granted(&self, take: u64) -> bool {
        let held = self.held.lock();
        held.waiting
            .get(&take)
            .is_some_and(|waiting| waiting.granted)
    }

    /// Nobody wants to know any more.
    pub(super) fn waits_no_more(&self, take: u64) {
        self.held.lock().waiting.remove(&take);
    }

    /// Another program of this mount holds what is in its way.
    pub(super) fn excludes(&self, lock: Lock) -> bool {
        let held = self.held.lock();
        let locks = held.files.get(&lock.holder.ino);
        locks.is_some_and(|locks| locks.conflict(held.session, lock).is_some())
    }

    /// False if there is surely nothing of this holder.
    pub(super) fn may_hold(&self, whose: Holder) -> bool {
        let held = self.held.lock();
        let session = held.session;
        let locks = held.files.get(&whose.ino);
        locks.is_some_and(|locks| locks.has_any(session, whose))
            || held.early.values().any(|change| change.is_of(whose))
    }

    /// This holder locks something through this open file.
    pub(super) fn goes_through(&self, file: u64, whose: Holder) {
        let mut held = self.held.lock();
        held.through.entry(file).or_default().insert(whose);
    }

    /// Who locked something through it.
    pub(super) fn went_through(&self, file: u64) -> BTreeSet<Holder> {
        self.held.lock().through.remove(&file).unwrap_or_default()
    }

    /// This holder gives up all that it has, through whichever files.
    pub(super) fn goes(&self, whose: Holder) {
        self.held.lock().through.retain(|_, holders| {
            holders.remove(&whose);
            !holders.is_empty()
        });
    }
}

impl Held {
    /// Whether what this takes is being freed.
    fn is_freed_in(&self, ask: &Ask) -> bool {
        let Ask::Take { lock, .. } = ask else {
            return false;
        };
        self.open.values().any(|open| match open {
            Ask::Free { holder, extent, .. } => {
                *holder == lock.holder && extent.overlaps(lock.extent)
            }
            _ => false,
        })
    }

    fn counts(&self, session: SessionId, life: OwnerEpoch) -> bool {
        self.session == session && self.life == life && !self.leaving
    }

    fn was_granted(&mut self, take: u64, turn: u64) {
        // Who is not listed has heard of it before.
        if let Some(waiting) = self.waiting.get_mut(&take) {
            waiting.granted = true;
            let lock = waiting.lock;
            self.do_in_turn(turn, Change::Taken(lock));
        }
    }

    fn do_in_turn(&mut self, turn: u64, change: Change) {
        if turn > self.turn {
            self.early.insert(turn, change);
        }
        while let Some(change) = self.early.remove(&(self.turn + 1)) {
            self.turn += 1;
            self.make(change);
        }
    }

    fn make(&mut self, change: Change) {
        let session = self.session;
        let ino = match change {
            Change::Nothing => return,
            Change::Taken(lock) | Change::NotTaken(lock) => lock.holder.ino,
            Change::Freed(holder, _) => holder.ino,
        };
        let locks = self.files.entry(ino).or_default();
        match change {
            Change::Nothing => {}
            Change::Taken(lock) => locks.take(session, lock),
            Change::NotTaken(lock) => locks.give_up_to_convert(session, &lock),
            Change::Freed(holder, extent) => locks.free(session, holder, extent),
        }
        if locks.is_empty() {
            self.files.remove(&ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::lock::{Kind, Mode};

    const LIFE: OwnerEpoch = OwnerEpoch(4);
    const US: SessionId = SessionId(7);

    fn lock(first: u64, last: u64, mode: Mode) -> Lock {
        Lock {
            holder: Holder {
                ino: InodeId(5),
                kind: Kind::Record,
                owner: 1,
            },
            extent: Extent { first, last },
            mode,
            pid: 1,
        }
    }

    async fn take(locks: &Locks, lock: Lock, waits: bool) -> (u64, Op) {
        let asked = locks.number(|order| Ask::Take { order, lock, waits });
        let (number, ask) = asked.await;
        (number, Op::Lock(ask))
    }

    async fn free(locks: &Locks, lock: Lock) -> (u64, Op) {
        let (holder, extent) = (lock.holder, lock.extent);
        let free = |order| Ask::Free {
            order,
            holder,
            extent,
        };
        let (number, ask) = locks.number(free).await;
        (number, Op::Lock(ask))
    }

    fn hear(locks: &Locks, (number, op): &(u64, Op), turn: u64, word: Word) -> bool {
        let said = Said {
            turn,
            word: Ok(word),
        };
        let heard = locks.hear(US, LIFE, op, &Ok(Answer::Lock(said)));
        locks.answered(*number);
        heard
    }

    fn mine() -> Locks {
        let locks = Locks::default();
        locks.begin(US, LIFE);
        locks
    }

    #[tokio::test]
    async fn what_comes_before_its_turn_waits_for_it() {
        let (locks, all) = (mine(), lock(0, 9, Mode::Exclusive));
        let first = take(&locks, all, false).await;
        let second = free(&locks, lock(4, 9, Mode::Shared)).await;
        let third = take(&locks, lock(0, 3, Mode::Shared), true).await;
        assert!(hear(&locks, &third, 2, Word::Waits));
        locks.granted(US, LIFE, third.0, 4);
        assert!(hear(&locks, &second, 3, Word::Done));
        assert_eq!(locks.standing(US, third.0), Standing::Granted);
        assert!(locks.may_hold(all.holder));
        assert!(hear(&locks, &first, 1, Word::Done));
        // Told twice it is the same.
        locks.granted(US, LIFE, third.0, 4);
        assert_eq!(locks.leave(), [lock(0, 3, Mode::Shared)]);
    }

    #[tokio::test]
    async fn what_may_have_been_given_up_is_not_said_again() {
        let (locks, all) = (mine(), lock(0, 9, Mode::Exclusive));
        let first = take(&locks, all, false).await;
        assert!(hear(&locks, &first, 1, Word::Done));
        let freed = free(&locks, lock(0, 1, Mode::Shared)).await;
        let shared = take(&locks, lock(8, 20, Mode::Shared), false).await;
        let waits = take(&locks, lock(30, 40, Mode::Shared), true).await;
        assert!(hear(&locks, &waits, 4, Word::Waits));
        let said = locks.leave();
        assert_eq!(
            said,
            [lock(2, 7, Mode::Exclusive), lock(8, 9, Mode::Shared)]
        );
        // What the former life says now counts no more.
        assert!(!hear(&locks, &freed, 2, Word::Done));
        locks.granted(US, LIFE, waits.0, 5);
        locks.arrive(OwnerEpoch(5));
        assert!(!hear(&locks, &shared, 3, Word::Done));
        assert_eq!(locks.standing(US, waits.0), Standing::AskAgain);
        assert_eq!(locks.leave(), said);
        locks.lose();
        assert_eq!(locks.standing(US, waits.0), Standing::Lost);
        assert_eq!(locks.leave(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_being_freed_is_taken_after_that() {
        let (locks, all) = (mine(), lock(0, 9, Mode::Exclusive));
        let freed = free(&locks, lock(4, 9, Mode::Shared)).await;
        // Other bytes need not wait; these could be freed after they were taken.
        take(&locks, lock(0, 3, Mode::Shared), false).await;
        let soon = std::time::Duration::from_secs(1);
        let early = tokio::time::timeout(soon, take(&locks, all, false)).await;
        assert!(early.is_err());
        let (done, _) = tokio::join!(take(&locks, all, false), async {
            hear(&locks, &freed, 1, Word::Done)
        });
        assert!(done.0 > freed.0);
    }
}
