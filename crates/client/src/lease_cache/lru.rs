//! A map of bounded weight that drops what was used least recently.

use std::collections::BTreeMap;

/// A use moves its entry to the front only if this many others were used since: a hit then costs one search, not three.
const REUSE: u64 = 256;

pub struct Lru<K, V> {
    entries: BTreeMap<K, Entry<V>>,
    by_tick: BTreeMap<u64, K>,
    tick: u64,
    weight: usize,
    limit: usize,
}

struct Entry<V> {
    value: V,
    weight: usize,
    tick: u64,
}

impl<K: Ord + Clone, V> Lru<K, V> {
    pub fn new(limit: usize) -> Lru<K, V> {
        Lru {
            entries: BTreeMap::new(),
            by_tick: BTreeMap::new(),
            tick: 0,
            weight: 0,
            limit,
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Inserts or replaces; returns what was dropped for it, which may be the new entry itself, and not what it replaced.
    pub fn insert(&mut self, key: K, value: V, weight: usize) -> Vec<(K, V)> {
        self.remove(&key);
        self.tick += 1;
        let tick = self.tick;
        self.by_tick.insert(tick, key.clone());
        let entry = Entry {
            value,
            weight,
            tick,
        };
        self.entries.insert(key, entry);
        self.weight += weight;
        self.drop_excess()
    }

    /// The entry, marked as used.
    pub fn get(&mut self, key: &K) -> Option<&V> {
        self.entry(key).map(|entry| &entry.value)
    }

    fn entry(&mut self, key: &K) -> Option<&mut Entry<V>> {
        let entry = self.entries.get_mut(key)?;
        if self.tick - entry.tick > REUSE {
            self.tick += 1;
            self.by_tick.remove(&entry.tick);
            self.by_tick.insert(self.tick, key.clone());
            entry.tick = self.tick;
        }
        Some(entry)
    }

    /// The entry, without marking it as used.
    pub fn peek(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Changes the entry by `change`, which returns its new weight; what is dropped for it as in `insert`.
    pub fn update(&mut self, key: &K, change: impl FnOnce(&mut V) -> usize) -> Vec<(K, V)> {
        let Some(entry) = self.entry(key) else {
            return Vec::new();
        };
        let weight = change(&mut entry.value);
        let former = std::mem::replace(&mut entry.weight, weight);
        self.weight = self.weight - former + weight;
        self.drop_excess()
    }

    fn drop_excess(&mut self) -> Vec<(K, V)> {
        let mut dropped = Vec::new();
        while self.weight > self.limit
            && let Some((_, oldest)) = self.by_tick.pop_first()
        {
            let entry = self.entries.remove(&oldest);
            let entry = entry.expect("every tick belongs to an entry");
            self.weight -= entry.weight;
            dropped.push((oldest, entry.value));
        }
        dropped
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.by_tick.remove(&entry.tick);
        self.weight -= entry.weight;
        Some(entry.value)
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.by_tick.clear();
        self.weight = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entries_are_dropped_when_the_weight_exceeds_the_limit() {
        let mut map = Lru::new(2 * REUSE as usize);
        for key in 0..2 * REUSE {
            assert!(map.insert(key, key, 1).is_empty());
        }
        assert_eq!(map.get(&0), Some(&0));
        assert_eq!(map.insert(1_000, 0, 2), [(1, 1), (2, 2)]);
        assert_eq!((map.peek(&0), map.peek(&1)), (Some(&0), None));
        map.update(&1_000, |value| {
            *value = 5;
            1
        });
        assert_eq!(map.peek(&1_000), Some(&5));
        assert!(map.insert(1_001, 0, 1).is_empty());
        assert_eq!(map.remove(&1_001), Some(0));
        let too_heavy = map.insert(7_777, 7, 5_000);
        assert_eq!((too_heavy.len(), map.len()), (2 * REUSE as usize, 0));
    }
}
