//! The states that a shared object may be in, given the requests, their replies and the time of each.
//!
//! Overlapping operations may have taken effect in any order, but each between its request and its reply, and each once
//! (linearizability). So there is a small set of possible states, and a reply rules out all states that do not give it. An empty
//! set means a broken promise. Changes are tried in every order, as late as possible; a read has to fit some state of its time.

use std::collections::{BTreeMap, BTreeSet};

/// A small object that several clients change.
pub trait Model {
    type State: Clone + Ord;
    type Op: Clone;
    type Out: Clone + Ord;

    /// The possible results of a change: more than one only where a power loss left the state undecided.
    fn change(state: &Self::State, op: &Self::Op) -> Vec<(Self::State, Self::Out)>;

    /// The states that a power loss may leave of an object that has been in all of these states since its last sync.
    fn cut<'a>(states: impl Iterator<Item = &'a Self::State>) -> Vec<Self::State>
    where
        Self::State: 'a;
}

type Ticket = u64;

pub struct Possible<M: Model> {
    may_be: BTreeSet<May<M>>,
    /// Changes that were requested and have no reply.
    asked: BTreeMap<Ticket, Asked<M::Op>>,
    /// Every state that the object may have been in, with the last moment of it; as far back as the last sync, or the
    /// oldest read under way.
    was: BTreeMap<M::State, u64>,
    /// The same for the time before the last power losses: a read that began then may have seen such a state.
    was_before_cuts: BTreeMap<M::State, u64>,
    /// When the last change was answered.
    answered: u64,
    next: Ticket,
}

struct Asked<Op> {
    op: Op,
    /// A power loss came during it: the change may have been made or not, whatever the reply says.
    crossed: bool,
}

/// A state, and the open changes that it contains, with the reply that each must get.
struct May<M: Model> {
    state: M::State,
    done: BTreeMap<Ticket, M::Out>,
}

impl<M: Model> Possible<M> {
    pub fn new(state: M::State) -> Possible<M> {
        let done = BTreeMap::new();
        Possible {
            was: BTreeMap::from([(state.clone(), 0)]),
            was_before_cuts: BTreeMap::new(),
            answered: 0,
            may_be: BTreeSet::from([May { state, done }]),
            asked: BTreeMap::new(),
            next: 0,
        }
    }

    /// The possible states, for the message of a failure.
    pub fn states(&self) -> impl Iterator<Item = &M::State> {
        self.may_be.iter().map(|may| &may.state)
    }

    /// A change begins.
    pub fn ask(&mut self, op: M::Op) -> Ticket {
        self.next += 1;
        let crossed = false;
        self.asked.insert(self.next, Asked { op, crossed });
        self.next
    }

    /// The change got a reply for which `fits` holds. False if no order of the changes under way gives such a reply.
    #[must_use]
    pub fn answered(&mut self, now: u64, ticket: Ticket, fits: impl Fn(&M::Out) -> bool) -> bool {
        if self.asked.get(&ticket).is_some_and(|asked| asked.crossed) {
            self.unanswered(now, ticket);
            return true;
        }
        let mut left = BTreeSet::new();
        for may in self.reachable(Some(ticket)) {
            if may.done.get(&ticket).is_some_and(&fits) {
                left.insert(may.without(ticket));
            }
        }
        self.asked.remove(&ticket);
        self.answered = now;
        self.now_is(now, left)
    }

    /// The change got no reply, and no server will make it later: it was made or not.
    pub fn unanswered(&mut self, now: u64, ticket: Ticket) {
        let all = self.reachable(Some(ticket));
        let all = all.into_iter().chain(self.may_be.iter().cloned());
        let left = all.map(|may| may.without(ticket)).collect();
        self.asked.remove(&ticket);
        self.answered = now;
        self.now_is(now, left);
    }

    /// A client read from `since` until `now`, and its result `fits` a state. False if it fits none of that time.
    #[must_use]
    pub fn looked(&mut self, since: u64, now: u64, fits: impl Fn(&M::State) -> bool) -> bool {
        // A change answered during the read may have taken effect before the read or after it. A result that fits a
        // state of that time therefore rules out nothing, also if it fits a state that is possible now.
        let meanwhile = |(state, until): (&M::State, &u64)| *until >= since && fits(state);
        let was_so = self.answered >= since && self.was.iter().any(meanwhile);
        if was_so || self.was_before_cuts.iter().any(meanwhile) {
            return true;
        }
        let mut left = BTreeSet::new();
        for may in self.reachable(None) {
            if fits(&may.state) {
                left.insert(may);
            }
        }
        self.now_is(now, left)
    }

    /// A power loss. Every change under way may have been made or not, whatever its reply says.
    pub fn cut(&mut self, now: u64) {
        let all = self.reachable(None);
        self.remember(now, &all);
        let states = M::cut(self.was.keys());
        for asked in self.asked.values_mut() {
            asked.crossed = true;
        }
        let may = |state| May {
            state,
            done: BTreeMap::new(),
        };
        self.may_be = states.into_iter().map(may).collect();
        self.was_before_cuts.append(&mut self.was);
        let now_is = self.may_be.clone();
        self.remember(now, &now_is);
    }

    /// Whether it is possible that none of the unanswered changes was made yet.
    pub fn may_be_without_asked(&self) -> bool {
        self.may_be.iter().any(|may| may.done.is_empty())
    }

    /// Changes made before this moment survive a power loss.
    pub fn synced(&mut self, before: u64) {
        let may_be = &self.may_be;
        self.was.retain(|state, until| {
            *until >= before || may_be.iter().any(|may| may.state == *state)
        });
    }

    fn now_is(&mut self, now: u64, left: BTreeSet<May<M>>) -> bool {
        if left.is_empty() {
            return false;
        }
        let before = std::mem::replace(&mut self.may_be, left);
        self.remember(now, &before);
        let after = self.may_be.clone();
        self.remember(now, &after);
        true
    }

    fn remember(&mut self, now: u64, all: &BTreeSet<May<M>>) {
        for may in all {
            self.was.insert(may.state.clone(), now);
        }
    }

    /// All states reachable by making open changes in any order; with `last`, only those in which `last` was made
    /// last.
    fn reachable(&self, last: Option<Ticket>) -> BTreeSet<May<M>> {
        let mut found = BTreeSet::new();
        let mut open: Vec<May<M>> = self.may_be.iter().cloned().collect();
        while let Some(may) = open.pop() {
            if found.contains(&may) {
                continue;
            }
            let is_done = |ticket: &Ticket| may.done.contains_key(ticket);
            if !last.is_some_and(|last| is_done(&last)) {
                for (ticket, asked) in self.asked.iter().filter(|(ticket, _)| !is_done(ticket)) {
                    for (state, out) in M::change(&may.state, &asked.op) {
                        let mut done = may.done.clone();
                        done.insert(*ticket, out);
                        open.push(May { state, done });
                    }
                }
            }
            found.insert(may);
        }
        found
    }
}

impl<M: Model> May<M> {
    fn without(mut self, ticket: Ticket) -> May<M> {
        self.done.remove(&ticket);
        self
    }

    fn key(&self) -> (&M::State, &BTreeMap<Ticket, M::Out>) {
        (&self.state, &self.done)
    }
}

// Written by hand: a derived implementation would require the same trait of the model itself.
impl<M: Model> Clone for May<M> {
    fn clone(&self) -> May<M> {
        May {
            state: self.state.clone(),
            done: self.done.clone(),
        }
    }
}

impl<M: Model> PartialEq for May<M> {
    fn eq(&self, other: &May<M>) -> bool {
        self.key() == other.key()
    }
}

impl<M: Model> Eq for May<M> {}

impl<M: Model> PartialOrd for May<M> {
    fn partial_cmp(&self, other: &May<M>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<M: Model> Ord for May<M> {
    fn cmp(&self, other: &May<M>) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that a change sets; the reply is the number before.
    struct Number;

    impl Model for Number {
        type State = u32;
        type Op = u32;
        type Out = u32;

        fn change(state: &u32, op: &u32) -> Vec<(u32, u32)> {
            vec![(*op, *state)]
        }

        fn cut<'a>(states: impl Iterator<Item = &'a u32>) -> Vec<u32> {
            states.copied().collect()
        }
    }

    #[test]
    fn changes_that_overlap_have_some_order_and_no_more() {
        let mut number = Possible::<Number>::new(0);
        let (one, two) = (number.ask(1), number.ask(2));
        assert!(number.answered(1, two, |was| *was == 1));
        assert!(!number.looked(2, 2, |is| *is == 0), "two was done");
        assert!(number.looked(2, 2, |is| *is == 2));
        assert!(!number.answered(3, one, |was| *was == 2), "one was before");
        let mut number = Possible::<Number>::new(0);
        let one = number.ask(1);
        assert!(number.answered(1, one, |was| *was == 0));
        let three = number.ask(3);
        assert!(number.looked(2, 3, |is| *is == 3), "it may be done already");
        assert!(!number.looked(4, 4, |is| *is == 1), "and not undone");
        assert!(number.answered(5, three, |was| *was == 1));
    }

    #[test]
    fn a_look_may_have_seen_what_was_when_it_began() {
        let mut number = Possible::<Number>::new(0);
        let one = number.ask(1);
        assert!(number.answered(5, one, |_| true));
        assert!(number.looked(5, 6, |is| *is == 0));
        assert!(!number.looked(6, 7, |is| *is == 0));
    }

    #[test]
    fn a_look_that_overlaps_two_changes_does_not_tell_which_was_last() {
        let mut number = Possible::<Number>::new(0);
        let (one, two) = (number.ask(1), number.ask(2));
        assert!(number.answered(2, one, |_| true));
        assert!(number.answered(4, two, |_| true));
        // The read began between the two replies, when the first change may have been made and the second not yet.
        assert!(number.looked(3, 5, |is| *is == 1));
        assert!(number.looked(6, 6, |is| *is == 2));
        assert!(!number.looked(7, 7, |is| *is == 1), "two was last");
    }

    #[test]
    fn a_look_across_a_power_cut_may_have_seen_what_was_before_and_undoes_nothing() {
        let mut number = Possible::<Number>::new(0);
        for (now, value) in [(2, 1), (4, 2)] {
            let ticket = number.ask(value);
            assert!(number.answered(now, ticket, |_| true));
        }
        number.cut(5);
        assert!(number.looked(3, 9, |is| *is == 1));
        // The power loss need not have undone anything for that result.
        assert!(number.states().any(|is| *is == 2));
        // A read that began after the power loss sees the state that it left, and all agree from then on.
        assert!(number.looked(6, 9, |is| *is == 1));
        assert!(!number.looked(10, 11, |is| *is == 2));
    }

    #[test]
    fn a_power_cut_leaves_what_was_since_the_sync() {
        let mut number = Possible::<Number>::new(0);
        for (now, value) in [(1, 1), (2, 2), (3, 3)] {
            let ticket = number.ask(value);
            assert!(number.answered(now, ticket, |_| true));
        }
        number.synced(3);
        let lost = number.ask(4);
        number.cut(5);
        let mut states: Vec<u32> = number.states().copied().collect();
        states.sort_unstable();
        assert_eq!(states, [2, 3, 4]);
        assert!(number.answered(6, lost, |was| *was == 99), "anything");
    }

    #[test]
    fn a_look_shows_that_what_nobody_was_answered_for_is_done() {
        let mut number = Possible::<Number>::new(0);
        let one = number.ask(1);
        assert!(number.may_be_without_asked());
        assert!(number.looked(1, 1, |is| *is == 1));
        assert!(!number.may_be_without_asked());
        assert!(number.answered(2, one, |was| *was == 0));
        assert!(number.may_be_without_asked());
    }

    #[test]
    fn what_was_never_answered_was_done_or_not() {
        let mut number = Possible::<Number>::new(0);
        let one = number.ask(1);
        number.unanswered(1, one);
        assert_eq!(number.may_be.len(), 2);
        assert!(number.looked(2, 2, |is| *is == 1));
        assert_eq!(number.may_be.len(), 1);
    }
}
