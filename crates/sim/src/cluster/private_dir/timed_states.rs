//! The states of an object with their times. A read may see any state of its time, and no other.

use std::collections::VecDeque;

/// Number of states that are remembered.
const STATES_KEPT: usize = 24;

pub struct TimedStates<T>(VecDeque<TimedState<T>>);

struct TimedState<T> {
    /// The events at which the change to this state was requested and answered.
    begun: u64,
    answered: Option<u64>,
    state: T,
}

impl<T> TimedStates<T> {
    /// The state since event `now`; earlier states are unknown.
    pub fn since(now: u64, state: T) -> TimedStates<T> {
        let timed_state = TimedState {
            begun: now,
            answered: Some(now),
            state,
        };
        TimedStates(VecDeque::from([timed_state]))
    }

    /// A change to this state begins.
    pub fn begin(&mut self, now: u64, state: T) {
        if self.0.len() == STATES_KEPT {
            self.0.pop_front();
        }
        self.0.push_back(TimedState {
            begun: now,
            answered: None,
            state,
        });
    }

    /// The last change was answered.
    pub fn note_reply(&mut self, now: u64) {
        if let Some(timed_state) = self.0.back_mut() {
            timed_state.answered.get_or_insert(now);
        }
    }

    /// The states between two events. None if they are not remembered.
    pub fn between(&self, from: u64, to: u64) -> Option<Vec<&T>> {
        if self.0.front()?.begun >= from {
            return None;
        }
        let mut states = Vec::new();
        for (index, timed_state) in self.0.iter().enumerate() {
            let next = self.0.get(index + 1);
            let was_over =
                next.is_some_and(|next| next.answered.is_some_and(|answered| answered < from));
            if timed_state.begun <= to && !was_over {
                states.push(&timed_state.state);
            }
        }
        Some(states)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_sees_the_states_of_its_time() {
        let mut timed_states = TimedStates::since(1, 'a');
        timed_states.begin(5, 'b');
        assert_eq!(timed_states.between(2, 4), Some(vec![&'a']));
        assert_eq!(timed_states.between(2, 6), Some(vec![&'a', &'b']));
        timed_states.note_reply(8);
        assert_eq!(timed_states.between(9, 10), Some(vec![&'b']));
        assert_eq!(timed_states.between(7, 10), Some(vec![&'a', &'b']));
        assert_eq!(timed_states.between(1, 10), None);
    }
}
