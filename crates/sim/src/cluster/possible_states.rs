//! # possible_states: the states that a shared object may be in, given the requests, their replies and their times
//!
//! Owns   the candidates. Overlapping operations may take effect in any order, but each between its request and its reply, and
//!        each once (linearizability). A reply rules out all states that do not explain it; if none remains, a promise is
//!        broken.
//! Never  fixes an order early: changes are tried in every order, as late as possible; a read must fit some state of its time.
//! Enter  at `PossibleStates::begin` and `PossibleStates::answered` for a change, at `PossibleStates::begin_read` and
//!        `PossibleStates::observed` for a read.

use std::collections::{BTreeMap, BTreeSet};

/// A small object that several clients change.
pub trait ObjectModel {
    type State: Clone + Ord;
    type Change: Clone;
    type Reply: Clone + Ord;

    /// The possible results of a change: several only where a power loss left the state uncertain.
    fn change(state: &Self::State, change: &Self::Change) -> Vec<(Self::State, Self::Reply)>;

    /// The states that a power loss may leave, given all states of the object since its last sync.
    fn after_power_loss<'a>(states: impl Iterator<Item = &'a Self::State>) -> Vec<Self::State>
    where
        Self::State: 'a;
}

/// Identifies a change from its request to its reply.
pub type ChangeId = u64;

/// Identifies a read from its request to its reply.
pub type ReadId = u64;

pub struct PossibleStates<M: ObjectModel> {
    candidates: BTreeSet<Candidate<M>>,
    /// Changes that were requested and have no reply.
    pending: BTreeMap<ChangeId, PendingChange<M::Change>>,
    /// Every state since the last sync that the object may have been in, with the last event at which it may have been: a power
    /// loss may return to it.
    past_states: BTreeMap<M::State, u64>,
    /// The same for earlier states, to which no power loss returns: a read that began in their time may still show them.
    states_of_reads: BTreeMap<M::State, u64>,
    /// The event at which each read in progress began.
    reads: BTreeMap<ReadId, u64>,
    /// The event of the last reply to a change.
    last_reply: u64,
    next: ChangeId,
}

struct PendingChange<Change> {
    change: Change,
    /// A power loss came before the reply: the change may have been made or not, whatever the reply says.
    crossed_power_loss: bool,
}

/// A possible state: it includes some of the pending changes, each of which must get the reply in `applied`.
struct Candidate<M: ObjectModel> {
    state: M::State,
    applied: BTreeMap<ChangeId, M::Reply>,
}

impl<M: ObjectModel> PossibleStates<M> {
    pub fn new(state: M::State) -> PossibleStates<M> {
        let applied = BTreeMap::new();
        PossibleStates {
            past_states: BTreeMap::from([(state.clone(), 0)]),
            states_of_reads: BTreeMap::new(),
            reads: BTreeMap::new(),
            last_reply: 0,
            candidates: BTreeSet::from([Candidate { state, applied }]),
            pending: BTreeMap::new(),
            next: 0,
        }
    }

    /// The possible states, for the text of a failure.
    pub fn states(&self) -> impl Iterator<Item = &M::State> {
        self.candidates.iter().map(|candidate| &candidate.state)
    }

    /// A program requests a change.
    pub fn begin(&mut self, change: M::Change) -> ChangeId {
        self.next += 1;
        let crossed_power_loss = false;
        self.pending.insert(
            self.next,
            PendingChange {
                change,
                crossed_power_loss,
            },
        );
        self.next
    }

    /// The change got a reply for which `fits` holds. Returns false if no order of the pending changes explains such a reply.
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
        // Other changes may have been made before it: a read in progress may show that, and a power loss may return to it.
        let mut before = self.reachable(None);
        before.retain(|candidate| !candidate.applied.contains_key(&change_id));
        let mut remaining = BTreeSet::new();
        for candidate in self.reachable(Some(change_id)) {
            if candidate.applied.get(&change_id).is_some_and(&fits) {
                remaining.insert(candidate.without(change_id));
            }
        }
        self.pending.remove(&change_id);
        self.last_reply = now;
        self.remember(now, &before);
        self.set_candidates(now, remaining)
    }

    /// The change got no reply, and no server will make it later: it was made or not.
    pub fn unanswered(&mut self, now: u64, change_id: ChangeId) {
        let reachable = self.reachable(Some(change_id));
        let reachable = reachable.into_iter().chain(self.candidates.iter().cloned());
        let remaining = reachable
            .map(|candidate| candidate.without(change_id))
            .collect();
        self.pending.remove(&change_id);
        self.last_reply = now;
        self.set_candidates(now, remaining);
    }

    /// A client requests a read. Until it ends, every state that was possible at any time since now may be its result.
    pub fn begin_read(&mut self, now: u64) -> ReadId {
        self.next += 1;
        self.reads.insert(self.next, now);
        self.next
    }

    /// The read got no reply.
    pub fn abandon_read(&mut self, read_id: ReadId) {
        self.reads.remove(&read_id);
        self.forget_unread_states();
    }

    /// The read got a reply, which `fits` a state. Returns false if no state of its time fits.
    #[must_use]
    pub fn observed(
        &mut self,
        now: u64,
        read_id: ReadId,
        fits: impl Fn(&M::State) -> bool,
    ) -> bool {
        let since = self.reads.remove(&read_id).unwrap_or(now);
        let is_possible = self.explains(since, now, fits);
        self.forget_unread_states();
        is_possible
    }

    fn explains(&mut self, since: u64, now: u64, fits: impl Fn(&M::State) -> bool) -> bool {
        // A change that was answered during the read may have taken effect before or after it. A result that fits a past state
        // of that time therefore rules out nothing.
        let fits_in_time = |(state, until): (&M::State, &u64)| *until >= since && fits(state);
        let fits_past_state = self.last_reply >= since && self.past_states.iter().any(fits_in_time);
        if fits_past_state || self.states_of_reads.iter().any(fits_in_time) {
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

    /// The object's server loses power. Every pending change may be made or not, whatever its reply says.
    pub fn lose_power(&mut self, now: u64) {
        let reachable = self.reachable(None);
        self.remember(now, &reachable);
        let states = M::after_power_loss(self.past_states.keys());
        for pending in self.pending.values_mut() {
            pending.crossed_power_loss = true;
        }
        let candidate = |state| Candidate {
            state,
            applied: BTreeMap::new(),
        };
        self.candidates = states.into_iter().map(candidate).collect();
        self.keep_for_reads(|_, _| true);
        let after = self.candidates.clone();
        self.remember(now, &after);
    }

    /// Whether a possible state includes none of the pending changes.
    pub fn may_lack_all_pending(&self) -> bool {
        self.candidates
            .iter()
            .any(|candidate| candidate.applied.is_empty())
    }

    /// States of this time and later survive a power loss; earlier ones do not return.
    pub fn synced(&mut self, before: u64) {
        let current: BTreeSet<M::State> = self.states().cloned().collect();
        self.keep_for_reads(|state, until| until < before && !current.contains(state));
    }

    /// No power loss returns to these past states. A read in progress may show them as long as before.
    fn keep_for_reads(&mut self, which: impl Fn(&M::State, u64) -> bool) {
        let all = std::mem::take(&mut self.past_states);
        for (state, until) in all {
            if which(&state, until) {
                let known = self.states_of_reads.entry(state).or_default();
                *known = until.max(*known);
            } else {
                self.past_states.insert(state, until);
            }
        }
        self.forget_unread_states();
    }

    fn forget_unread_states(&mut self) {
        let oldest = self.reads.values().min().copied().unwrap_or(u64::MAX);
        self.states_of_reads.retain(|_, until| *until >= oldest);
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

    fn remember(&mut self, now: u64, candidates: &BTreeSet<Candidate<M>>) {
        for candidate in candidates {
            self.past_states.insert(candidate.state.clone(), now);
        }
    }

    /// All states that the pending changes lead to, in any order; with `last`, only those in which `last` was the last change.
    fn reachable(&self, last: Option<ChangeId>) -> BTreeSet<Candidate<M>> {
        let mut found = BTreeSet::new();
        let mut unexplored: Vec<Candidate<M>> = self.candidates.iter().cloned().collect();
        while let Some(candidate) = unexplored.pop() {
            if found.contains(&candidate) {
                continue;
            }
            let is_applied = |change_id: &ChangeId| candidate.applied.contains_key(change_id);
            if !last.is_some_and(|last| is_applied(&last)) {
                for (change_id, pending) in self
                    .pending
                    .iter()
                    .filter(|(change_id, _)| !is_applied(change_id))
                {
                    for (state, reply) in M::change(&candidate.state, &pending.change) {
                        let mut applied = candidate.applied.clone();
                        applied.insert(*change_id, reply);
                        unexplored.push(Candidate { state, applied });
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
        self.applied.remove(&change_id);
        self
    }

    fn key(&self) -> (&M::State, &BTreeMap<ChangeId, M::Reply>) {
        (&self.state, &self.applied)
    }
}

// Written by hand, because derived implementations would require the traits of the model.
impl<M: ObjectModel> Clone for Candidate<M> {
    fn clone(&self) -> Candidate<M> {
        Candidate {
            state: self.state.clone(),
            applied: self.applied.clone(),
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

    /// A number. A change sets it and returns the number before.
    struct Number;

    impl ObjectModel for Number {
        type State = u32;
        type Change = u32;
        type Reply = u32;

        fn change(state: &u32, change: &u32) -> Vec<(u32, u32)> {
            vec![(*change, *state)]
        }

        fn after_power_loss<'a>(states: impl Iterator<Item = &'a u32>) -> Vec<u32> {
            states.copied().collect()
        }
    }

    /// A read that began at `since` and ends now. The tests begin it late where nothing happened in between.
    fn read(
        number: &mut PossibleStates<Number>,
        since: u64,
        now: u64,
        fits: impl Fn(&u32) -> bool,
    ) -> bool {
        let read_id = number.begin_read(since);
        number.observed(now, read_id, fits)
    }

    #[test]
    fn overlapping_changes_have_some_order() {
        let mut number = PossibleStates::<Number>::new(0);
        let (one, two) = (number.begin(1), number.begin(2));
        assert!(number.answered(1, two, |was| *was == 1));
        assert!(
            !read(&mut number, 2, 2, |is| *is == 0),
            "change two was answered"
        );
        assert!(read(&mut number, 2, 2, |is| *is == 2));
        assert!(
            !number.answered(3, one, |was| *was == 2),
            "change one came before two"
        );
        let mut number = PossibleStates::<Number>::new(0);
        let one = number.begin(1);
        assert!(number.answered(1, one, |was| *was == 0));
        let three = number.begin(3);
        assert!(
            read(&mut number, 2, 3, |is| *is == 3),
            "the change may be made before its reply"
        );
        assert!(
            !read(&mut number, 4, 4, |is| *is == 1),
            "a read has shown the change"
        );
        assert!(number.answered(5, three, |was| *was == 1));
    }

    #[test]
    fn a_read_may_see_the_state_at_its_beginning() {
        let mut number = PossibleStates::<Number>::new(0);
        let one = number.begin(1);
        assert!(number.answered(5, one, |_| true));
        assert!(read(&mut number, 5, 6, |is| *is == 0));
        assert!(!read(&mut number, 6, 7, |is| *is == 0));
    }

    #[test]
    fn a_read_that_overlaps_two_changes_does_not_show_which_was_last() {
        let mut number = PossibleStates::<Number>::new(0);
        let (one, two) = (number.begin(1), number.begin(2));
        assert!(number.answered(2, one, |_| true));
        assert!(number.answered(4, two, |_| true));
        // The read began between the two replies, when the first change may have been made and the second not yet.
        assert!(read(&mut number, 3, 5, |is| *is == 1));
        assert!(read(&mut number, 6, 6, |is| *is == 2));
        assert!(
            !read(&mut number, 7, 7, |is| *is == 1),
            "the last read showed change two"
        );
    }

    #[test]
    fn a_read_may_show_a_change_that_was_made_before_one_that_was_answered_earlier() {
        let mut number = PossibleStates::<Number>::new(0);
        let (one, two) = (number.begin(1), number.begin(2));
        let read_id = number.begin_read(1);
        assert!(number.answered(2, one, |_| true));
        assert!(number.answered(3, two, |_| true));
        // Change two was made first, then the read, then change one.
        assert!(number.observed(4, read_id, |is| *is == 2));
        assert!(read(&mut number, 5, 5, |is| *is == 1));
    }

    #[test]
    fn a_read_across_a_power_loss_may_see_an_earlier_state_and_undoes_nothing() {
        let mut number = PossibleStates::<Number>::new(0);
        for (now, value) in [(2, 1), (4, 2)] {
            let change_id = number.begin(value);
            assert!(number.answered(now, change_id, |_| true));
        }
        let across = number.begin_read(3);
        number.lose_power(5);
        assert!(number.observed(9, across, |is| *is == 1));
        // That result does not show that the power loss undid a change.
        assert!(number.states().any(|is| *is == 2));
        // A read that began after the power loss sees the state that it left, and later reads must agree.
        assert!(read(&mut number, 6, 9, |is| *is == 1));
        assert!(!read(&mut number, 10, 11, |is| *is == 2));
    }

    #[test]
    fn a_power_loss_leaves_a_state_since_the_last_sync() {
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
        assert!(
            number.answered(6, lost, |was| *was == 99),
            "any reply fits after a power loss"
        );
    }

    #[test]
    fn a_read_that_began_before_a_sync_may_see_the_state_that_the_sync_ruled_out() {
        let mut number = PossibleStates::<Number>::new(0);
        let overtaken = number.begin_read(1);
        let change_id = number.begin(1);
        assert!(number.answered(2, change_id, |_| true));
        let late = number.begin_read(3);
        number.synced(3);
        assert!(number.observed(5, overtaken, |is| *is == 0));
        assert!(!number.observed(6, late, |is| *is == 0));
        number.lose_power(7);
        let states: Vec<u32> = number.states().copied().collect();
        assert_eq!(
            states,
            [1],
            "the sync ruled out that a power loss returns to 0"
        );
    }

    #[test]
    fn a_read_may_show_that_a_change_without_a_reply_was_made() {
        let mut number = PossibleStates::<Number>::new(0);
        let one = number.begin(1);
        assert!(number.may_lack_all_pending());
        assert!(read(&mut number, 1, 1, |is| *is == 1));
        assert!(!number.may_lack_all_pending());
        assert!(number.answered(2, one, |was| *was == 0));
        assert!(number.may_lack_all_pending());
    }

    #[test]
    fn a_change_that_never_gets_a_reply_was_made_or_not() {
        let mut number = PossibleStates::<Number>::new(0);
        let one = number.begin(1);
        number.unanswered(1, one);
        assert_eq!(number.candidates.len(), 2);
        assert!(read(&mut number, 2, 2, |is| *is == 1));
        assert_eq!(number.candidates.len(), 1);
    }
}
