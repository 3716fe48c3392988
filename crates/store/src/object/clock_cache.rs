//! CLOCK (second-chance) cache of keys: the key that was unused for longest is evicted first, and each used key gets a
//! second chance.

use std::collections::VecDeque;

pub(super) struct ClockCache<K> {
    queue: VecDeque<K>,
    limit: usize,
}

/// Result of an attempt to evict the oldest key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Eviction {
    /// The caller evicted it now, or it was gone already.
    Evicted,
    /// It was used since, or cannot be evicted yet.
    Kept,
}

impl<K> ClockCache<K> {
    pub fn new(limit: usize) -> ClockCache<K> {
        ClockCache {
            queue: VecDeque::new(),
            limit,
        }
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Adds a key. While there are too many, calls `try_evict` for the oldest ones; gives up after a few calls that
    /// evicted none, since the next `insert` continues.
    pub fn insert(&mut self, key: K, try_evict: impl FnMut(&K) -> Eviction) {
        /// More than one, so that the excess shrinks once keys can be evicted; not the whole excess, or each caller
        /// would check all keys while none can be evicted.
        const AT_ONCE: usize = 2;
        self.queue.push_back(key);
        let excess = self.queue.len().saturating_sub(self.limit);
        self.evict(excess.min(AT_ONCE), try_evict);
    }

    /// Tries to evict `count` keys.
    pub fn evict(&mut self, mut count: usize, mut try_evict: impl FnMut(&K) -> Eviction) {
        /// Checks for each key to evict: more would make one caller pay for all.
        const LOOKS: usize = 8;
        let mut looks = count.saturating_mul(LOOKS).min(self.queue.len());
        while count > 0 && looks > 0 {
            let Some(key) = self.queue.pop_front() else {
                return;
            };
            looks -= 1;
            match try_evict(&key) {
                Eviction::Evicted => count -= 1,
                Eviction::Kept => self.queue.push_back(key),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn while_no_key_can_be_evicted_each_call_checks_a_few() {
        let mut kept = ClockCache::new(3);
        for key in 0..1_000 {
            let mut looks = 0;
            kept.insert(key, |_| {
                looks += 1;
                Eviction::Kept
            });
            assert!(looks <= 16, "{looks}");
        }
        for key in 1_000..2_100 {
            kept.insert(key, |_| Eviction::Evicted);
        }
        assert_eq!(kept.len(), 3, "the excess is evicted once it can be");
    }

    #[test]
    fn the_longest_unused_key_is_evicted_and_used_keys_stay() {
        let mut kept = ClockCache::new(3);
        let used = BTreeSet::from([1]);
        let mut gone = Vec::new();
        for key in 1..=5 {
            kept.insert(key, |key| match used.contains(key) {
                true => Eviction::Kept,
                false => {
                    gone.push(*key);
                    Eviction::Evicted
                }
            });
        }
        assert_eq!(gone, [2, 3]);
        assert_eq!(kept.len(), 3);
    }
}
