//! The states that a shared object may be in, given the requests, their replies and the time of each.
//!
//! Overlapping operations may have taken effect in any order, but each between its request and its reply, and each once
//! (linearizability). So there is a small set of possible states, and a reply rules out all states that do not give it. An empty
//! set means a broken promise. Changes are tried in every order, as late as possible; a read has to fit some state of its time.

use std::collections::{BTreeMap, BTreeSet};

/// A small object that several clients change.
pub trait ObjectModel {
    type State: Clone + Ord;
    type Change: Clone;
    type Reply: Clone + Ord;

    /// The possible results of a change: more than one only where a power loss left the state undecided.
    fn change(state: &Self::State, op: &Self::Change) -> Vec<(Self::State, Self::Reply)>;

    /// The states that a power loss may leave of an object that has been in all of these states since its last sync.
    fn after_power_loss<'a>(states: impl Iterator<Item = &'a Self::State>) -> Vec<Self::State>
    where
        Self::State: 'a;
}

type ChangeId = u64;

pub struct PossibleStates<M: ObjectModel> {
    candidates: BTreeSet<Candidate<M>>,
    /// Changes that were requested and have no reply.
    pending: BTreeMap<ChangeId, PendingChange<M::Change>>,
    /// Every state that the object may have been in, with the last moment of it; as far back as the last sync, or the
    /// oldest read under way.
    past_states: BTreeMap<M::State, u64>,
    /// The same for the time before the last power losses: a read that began then may have seen such a state.
    states_before_power_loss: BTreeMap<M::State, u64>,
    /// When the last change was answered.
    answered: u64,
    next: ChangeId,
}

struct PendingChange<Change> {
    op: Change,
    /// A power loss came during it: the change may have been made or not, whatever the reply says.
    crossed_power_loss: bool,
}

/// A state, and the open changes that it contains, with the reply that each must get.
struct Candidate<M: ObjectModel> {
    state: M::State,
    done: BTreeMap<ChangeId, M::Reply>,
}

impl<M: ObjectModel> PossibleStates<M> {
    pub fn new(state: M::State) -> PossibleStates<M> {
        let done = BTreeMap::new();
        PossibleStates {
            past_states: BTreeMap::from([(state.clone(), 0)]),
            states_before_power_loss: BTreeMap::new(),
            answered: 0,
            candidates: BTreeSet::from([Candidate { state, done }]),
            pending: BTreeMap::new(),
            next: 0,
        }
    }

    /// The possible states, for the message of a failure.
    pub fn states(&self) -> impl Iterator<Item = &M::State> {
        self.candidates.iter().map(|candidate| &candidate.state)
    }

    /// A change begins.
    pub fn begin(&mut self, op: M::Change) -> ChangeId {
        self.next += 1;
        let crossed_power_loss = false;
        self.pending.insert(
            self.next,
            PendingChange {
                op,
                crossed_power_loss,
            },
        );
        self.next
    }

    /// The change got a reply for which `fits` holds. False if no order of the changes under way gives such a reply.
    #[must_use]
    pub fn answered(
        &mut self,
        now: u64,
        change_id: ChangeId,
        fits: impl Fn(&M::Reply) -> bool,
    ) -> bool {
        if self
            .pending
            .get(&change_id)
            .is_some_and(|pending| pending.crossed_power_loss)
        {
            self.unanswered(now, change_id);
            return true;
        }
        let mut remaining = BTreeSet::new();
        for candidate in self.reachable(Some(change_id)) {
            if candidate.done.get(&change_id).is_some_and(&fits) {
                remaining.insert(candidate.without(change_id));
            }
        }
        self.pending.remove(&change_id);
        self.answered = now;
        self.set_candidates(now, remaining)
    }

    /// The change got no reply, and no server will make it later: it was made or not.
    pub fn unanswered(&mut self, now: u64, change_id: ChangeId) {
        let all = self.reachable(Some(change_id));
        let all = all.into_iter().chain(self.candidates.iter().cloned());
        let remaining = all.map(|candidate| candidate.without(change_id)).collect();
        self.pending.remove(&change_id);
        self.answered = now;
        self.set_candidates(now, remaining);
    }

    /// A client read from `since` until `now`, and its result `fits` a state. False if it fits none of that time.
    #[must_use]
    pub fn observed(&mut self, since: u64, now: u64, fits: impl Fn(&M::State) -> bool) -> bool {
        // A change answered during the read may have taken effect before the read or after it. A result that fits a
        // state of that time therefore rules out nothing, also if it fits a state that is possible now.
        let meanwhile = |(state, until): (&M::State, &u64)| *until >= since && fits(state);
        let was_so = self.answered >= since && self.past_states.iter().any(meanwhile);
        if was_so || self.states_before_power_loss.iter().any(meanwhile) {
            return true;
        }
        let mut remaining = BTreeSet::new();
        for candidate in self.reachable(None) {
            if fits(&candidate.state) {
                remaining.insert(candidate);
            }
        }
        self.set_candidates(now, remaining)
    }

    /// A power loss. Every change under way may have been made or not, whatever its reply says.
    pub fn lose_power(&mut self, now: u64) {
        let all = self.reachable(None);
        self.remember(now, &all);
        let states = M::after_power_loss(self.past_states.keys());
        for pending in self.pending.values_mut() {
            pending.crossed_power_loss = true;
        }
        let candidate = |state| Candidate {
            state,
            done: BTreeMap::new(),
        };
        self.candidates = states.into_iter().map(candidate).collect();
        self.states_before_power_loss.append(&mut self.past_states);
        let set_candidates = self.candidates.clone();
        self.remember(now, &set_candidates);
    }

    /// Whether it is possible that none of the unanswered changes was made yet.
    pub fn may_lack_pending(&self) -> bool {
        self.candidates
            .iter()
            .any(|candidate| candidate.done.is_empty())
    }

    /// Changes made before this moment survive a power loss.
    pub fn synced(&mut self, before: u64) {
        let candidates = &self.candidates;
        self.past_states.retain(|state, until| {
            *until >= before || candidates.iter().any(|candidate| candidate.state == *state)
        });
    }

    fn set_candidates(&mut self, now: u64, remaining: BTreeSet<Candidate<M>>) -> bool {
        if remaining.is_empty() {
            return false;
        }
        let before = std::mem::replace(&mut self.candidates, remaining);
        self.remember(now, &before);
        let after = self.candidates.clone();
        self.remember(now, &after);
        true
    }

    fn remember(&mut self, now: u64, all: &BTreeSet<Candidate<M>>) {
        for candidate in all {
            self.past_states.insert(candidate.state.clone(), now);
        }
    }

    /// All states reachable by making open changes in any order; with `last`, only those in which `last` was made
    /// last.
    fn reachable(&self, last: Option<ChangeId>) -> BTreeSet<Candidate<M>> {
        let mut found = BTreeSet::new();
        let mut unexplored: Vec<Candidate<M>> = self.candidates.iter().cloned().collect();
        while let Some(candidate) = unexplored.pop() {
            if found.contains(&candidate) {
                continue;
            }
            let is_done = |change_id: &ChangeId| candidate.done.contains_key(change_id);
            if !last.is_some_and(|last| is_done(&last)) {
                for (change_id, pending) in self
                    .pending
                    .iter()
                    .filter(|(change_id, _)| !is_done(change_id))
                {
                    for (state, out) in M::change(&candidate.state, &pending.op) {
                        let mut done = candidate.done.clone();
                        done.insert(*change_id, out);
                        unexplored.push(Candidate { state, done });
                    }
                }
            }
            found.insert(candidate);
        }
        found
    }
}

impl<M: ObjectModel> Candidate<M> {
    fn without(mut self, change_id: ChangeId) -> Candidate<M> {
        self.done.remove(&change_id);
        self
    }

    fn key(&self) -> (&M::State, &BTreeMap<ChangeId, M::Reply>) {
        (&self.state, &self.done)
    }
}

// Written by hand: a derived implementation would require the same trait of the model itself.
impl<M: ObjectModel> Clone for Candidate<M> {
    fn clone(&self) -> Candidate<M> {
        Candidate {
            state: self.state.clone(),
            done: self.done.clone(),
        }
    }
}

impl<M: ObjectModel> PartialEq for Candidate<M> {
    fn eq(&self, other: &Candidate<M>) -> bool {
        self.key() == other.key()
    }
}

impl<M: ObjectModel> Eq for Candidate<M> {}

impl<M: ObjectModel> PartialOrd for Candidate<M> {
    fn partial_cmp(&self, other: &Candidate<M>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<M: ObjectModel> Ord for Candidate<M> {
    fn cmp(&self, other: &Candidate<M>) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that a change sets; the reply is the number before.
    struct Number;

    impl ObjectModel for Number {
        type State = u32;
        type Change = u32;
        type Reply = u32;

        fn change(state: &u32, op: &u32) -> Vec<(u32, u32)> {
            vec![(*op, *state)]
        }

        fn after_power_loss<'a>(states: impl Iterator<Item = &'a u32>) -> Vec<u32> {
            states.copied().collect()
        }
    }

    #[test]
    fn changes_that_overlap_have_some_order_and_no_more() {
        let mut number = PossibleStates::<Number>::new(0);
        let (one, two) = (number.begin(1), number.begin(2));
        assert!(number.answered(1, two, |was| *was == 1));
        assert!(!number.observed(2, 2, |is| *is == 0), "two was done");
        assert!(number.observed(2, 2, |is| *is == 2));
        assert!(!number.answered(3, one, |was| *was == 2), "one was before");
        let mut number = PossibleStates::<Number>::new(0);
        let one = number.begin(1);
        assert!(number.answered(1, one, |was| *was == 0));
        let three = number.begin(3);
        assert!(
            number.observed(2, 3, |is| *is == 3),
            "it may be done already"
        );
        assert!(!number.observed(4, 4, |is| *is == 1), "and not undone");
        assert!(number.answered(5, three, |was| *was == 1));
    }

    #[test]
    fn a_look_may_have_seen_what_was_when_it_began() {
        let mut number = PossibleStates::<Number>::new(0);
        let one = number.begin(1);
        assert!(number.answered(5, one, |_| true));
        assert!(number.observed(5, 6, |is| *is == 0));
        assert!(!number.observed(6, 7, |is| *is == 0));
    }

    #[test]
    fn a_look_that_overlaps_two_changes_does_not_tell_which_was_last() {
        let mut number = PossibleStates::<Number>::new(0);
        let (one, two) = (number.begin(1), number.begin(2));
        assert!(number.answered(2, one, |_| true));
        assert!(number.answered(4, two, |_| true));
        // The read began between the two replies, when the first change may have been made and the second not yet.
        assert!(number.observed(3, 5, |is| *is == 1));
        assert!(number.observed(6, 6, |is| *is == 2));
        assert!(!number.observed(7, 7, |is| *is == 1), "two was last");
    }

    #[test]
    fn a_look_across_a_power_cut_may_have_seen_what_was_before_and_undoes_nothing() {
        let mut number = PossibleStates::<Number>::new(0);
        for (now, value) in [(2, 1), (4, 2)] {
            let change_id = number.begin(value);
            assert!(number.answered(now, change_id, |_| true));
        }
        number.lose_power(5);
        assert!(number.observed(3, 9, |is| *is == 1));
        // The power loss need not have undone anything for that result.
        assert!(number.states().any(|is| *is == 2));
        // A read that began after the power loss sees the state that it left, and all agree from then on.
        assert!(number.observed(6, 9, |is| *is == 1));
        assert!(!number.observed(10, 11, |is| *is == 2));
    }

    #[test]
    fn a_power_cut_leaves_what_was_since_the_sync() {
        let mut number = PossibleStates::<Number>::new(0);
        for (now, value) in [(1, 1), (2, 2), (3, 3)] {
            let change_id = number.begin(value);
            assert!(number.answered(now, change_id, |_| true));
        }
        number.synced(3);
        let lost = number.begin(4);
        number.lose_power(5);
        let mut states: Vec<u32> = number.states().copied().collect();
        states.sort_unstable();
        assert_eq!(states, [2, 3, 4]);
        assert!(number.answered(6, lost, |was| *was == 99), "anything");
    }

    #[test]
    fn a_look_shows_that_what_nobody_was_answered_for_is_done() {
        let mut number = PossibleStates::<Number>::new(0);
        let one = number.begin(1);
        assert!(number.may_lack_pending());
        assert!(number.observed(1, 1, |is| *is == 1));
        assert!(!number.may_lack_pending());
        assert!(number.answered(2, one, |was| *was == 0));
        assert!(number.may_lack_pending());
    }

    #[test]
    fn what_was_never_answered_was_done_or_not() {
        let mut number = PossibleStates::<Number>::new(0);
        let one = number.begin(1);
        number.unanswered(1, one);
        assert_eq!(number.candidates.len(), 2);
        assert!(number.observed(2, 2, |is| *is == 1));
        assert_eq!(number.candidates.len(), 1);
    }
}
