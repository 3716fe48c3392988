//! What was kept longest without being used goes first: a queue in which each gets a second chance.

use std::collections::VecDeque;

pub(super) struct SecondChance<K> {
    queue: VecDeque<K>,
    limit: usize,
}

/// What became of the longest kept one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It went now, or was gone already.
    Gone,
    /// It was used since, or cannot go yet.
    Stays,
}

impl<K> SecondChance<K> {
    pub fn new(limit: usize) -> SecondChance<K> {
        SecondChance {
            queue: VecDeque::new(),
            limit,
        }
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Keeps one more, and asks about the longest kept ones while there are too many; gives up when a few looks
    /// found none that can go, since the next call looks further.
    pub fn keep(&mut self, key: K, look: impl FnMut(&K) -> Verdict) {
        /// More than one, so that the excess shrinks when there is something to let go; not all of it, or each caller
        /// would look at everything as long as nothing can go.
        const AT_ONCE: usize = 2;
        self.queue.push_back(key);
        let excess = self.queue.len().saturating_sub(self.limit);
        self.evict(excess.min(AT_ONCE), look);
    }

    /// Tries to let `count` of them go.
    pub fn evict(&mut self, mut count: usize, mut look: impl FnMut(&K) -> Verdict) {
        /// Looks for each that is to go: more would make one caller pay for all.
        const LOOKS: usize = 8;
        let mut looks = count.saturating_mul(LOOKS).min(self.queue.len());
        while count > 0 && looks > 0 {
            let Some(key) = self.queue.pop_front() else {
                return;
            };
            looks -= 1;
            match look(&key) {
                Verdict::Gone => count -= 1,
                Verdict::Stays => self.queue.push_back(key),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn as_long_as_none_can_go_each_call_looks_at_a_few() {
        let mut kept = SecondChance::new(3);
        for key in 0..1_000 {
            let mut looks = 0;
            kept.keep(key, |_| {
                looks += 1;
                Verdict::Stays
            });
            assert!(looks <= 16, "{looks}");
        }
        for key in 1_000..2_100 {
            kept.keep(key, |_| Verdict::Gone);
        }
        assert_eq!(kept.len(), 3, "the excess goes when it can");
    }

    #[test]
    fn the_longest_unused_goes_and_the_used_stay() {
        let mut kept = SecondChance::new(3);
        let used = BTreeSet::from([1]);
        let mut gone = Vec::new();
        for key in 1..=5 {
            kept.keep(key, |key| match used.contains(key) {
                true => Verdict::Stays,
                false => {
                    gone.push(*key);
                    Verdict::Gone
                }
            });
        }
        assert_eq!(gone, [2, 3]);
        assert_eq!(kept.len(), 3);
    }
}
