//! CLOCK (second-chance) cache of records that were read or applied recently, with a bound in bytes. The hand evicts
//! entries that were not used since it passed them last. Each insertion advances it by a step or two; it never sweeps
//! the whole cache.

use super::limits::RECORD_OVERHEAD;
use bytes::Bytes;
use gupfs_platform::hash::BuildHasher;
use hashbrown::HashTable;
use std::hash::BuildHasher as _;

pub struct RecordCache {
    /// The index in `entries` of each key.
    table: HashTable<u32>,
    entries: Vec<Option<CacheEntry>>,
    free: Vec<u32>,
    hand: usize,
    hasher: BuildHasher,
    bytes: usize,
    limit: usize,
}

struct CacheEntry {
    key: Bytes,
    value: Option<Bytes>,
    used: bool,
}

impl RecordCache {
    pub fn new(limit: usize) -> RecordCache {
        RecordCache {
            table: HashTable::new(),
            entries: Vec::new(),
            free: Vec::new(),
            hand: 0,
            hasher: BuildHasher::default(),
            bytes: 0,
            limit,
        }
    }

    /// The cached value of a key; `Some(None)` if the key is known to be absent.
    pub fn get(&mut self, key: &[u8]) -> Option<Option<Bytes>> {
        let at = self.find(key)?;
        let cached = self.entries[at as usize].as_mut().expect("found");
        cached.used = true;
        Some(cached.value.clone())
    }

    pub fn put(&mut self, key: Bytes, value: Option<Bytes>) {
        self.bytes += cost(&key, &value);
        match self.find(&key) {
            Some(at) => {
                let cached = self.entries[at as usize].as_mut().expect("found");
                self.bytes -= cost(&cached.key, &cached.value);
                (cached.key, cached.value, cached.used) = (key, value, true);
            }
            None => self.insert(key, value),
        }
        while self.bytes > self.limit {
            self.advance_hand();
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    fn find(&self, key: &[u8]) -> Option<u32> {
        let entries = &self.entries;
        let same = |at: &u32| entries[*at as usize].as_ref().is_some_and(|s| s.key == key);
        self.table.find(self.hash(key), same).copied()
    }

    fn insert(&mut self, key: Bytes, value: Option<Bytes>) {
        let hash = self.hash(&key);
        // A new entry counts as unused, or entries that are read once would push out those that are read often. It
        // takes the place of the entry that was evicted last, just behind the hand, so it stays for a whole round.
        let cached = Some(CacheEntry {
            key,
            value,
            used: false,
        });
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = cached;
                at
            }
            None => {
                self.entries.push(cached);
                (self.entries.len() - 1) as u32
            }
        };
        let (entries, hasher) = (&self.entries, &self.hasher);
        let hash_of = |at: &u32| {
            let cached = entries[*at as usize].as_ref().expect("in the table");
            hasher.hash_one(&cached.key[..])
        };
        self.table.insert_unique(hash, at, hash_of);
    }

    /// Advances the hand by one step.
    fn advance_hand(&mut self) {
        let at = self.hand % self.entries.len();
        self.hand = at + 1;
        let Some(cached) = &mut self.entries[at] else {
            return;
        };
        if std::mem::take(&mut cached.used) {
            return;
        }
        let cached = self.entries[at].take().expect("checked above");
        self.bytes -= cost(&cached.key, &cached.value);
        let hash = self.hash(&cached.key);
        if let Ok(entry) = self.table.find_entry(hash, |found| *found == at as u32) {
            entry.remove();
        }
        self.free.push(at as u32);
    }
}

/// Approximate memory of a cached record.
pub fn cost(key: &Bytes, value: &Option<Bytes>) -> usize {
    key.len() + value.as_ref().map_or(0, Bytes::len) + RECORD_OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_platform::fake::FakeRandom;
    use std::collections::BTreeMap;

    fn key(number: u32) -> Bytes {
        Bytes::copy_from_slice(&number.to_be_bytes())
    }

    #[test]
    fn the_cache_stays_within_its_bound_and_keeps_used_records() {
        let limit = 100 * (4 + RECORD_OVERHEAD);
        let mut cache = RecordCache::new(limit);
        for number in 0..10_000 {
            cache.put(key(number), None);
            assert!(cache.get(&key(0)).is_some(), "lost after {number}");
            assert!(
                number < 50 || cache.find(&key(number - 50)).is_some(),
                "{number}: a round is short"
            );
            assert!(cache.bytes() <= limit);
        }
        assert!(cache.get(&key(17)).is_none());
        assert!(cache.entries.len() <= 101);
    }

    #[test]
    fn a_later_put_replaces_the_value() {
        let mut cache = RecordCache::new(1 << 20);
        cache.put(key(1), Some(Bytes::from_static(b"old")));
        cache.put(key(1), None);
        assert_eq!(cache.get(&key(1)), Some(None));
        assert_eq!(cache.bytes(), 4 + RECORD_OVERHEAD);
    }

    #[test]
    fn cached_values_equal_those_of_a_map() {
        let random = FakeRandom::new(1);
        let (mut cache, mut map) = (RecordCache::new(10_000), BTreeMap::new());
        let mut hits = 0;
        for _ in 0..100_000 {
            let key = key(random.below(200) as u32);
            if random.one_in(2) {
                let value = Bytes::from(vec![random.u64() as u8; random.below(300) as usize]);
                let value = (!random.one_in(4)).then_some(value);
                map.insert(key.clone(), value.clone());
                cache.put(key, value);
            } else if let Some(value) = cache.get(&key) {
                assert_eq!(Some(&value), map.get(&key));
                hits += 1;
            }
            let sum: usize = (cache.entries.iter().flatten())
                .map(|cached| cost(&cached.key, &cached.value))
                .sum();
            assert_eq!(
                (sum, cache.table.len()),
                (cache.bytes, cache.entries.len() - cache.free.len())
            );
        }
        assert!(hits > 1000, "{hits}");
    }

    #[test]
    fn a_record_larger_than_the_cache_is_not_cached() {
        let mut cache = RecordCache::new(200);
        cache.put(key(1), Some(Bytes::from(vec![0; 1000])));
        assert_eq!((cache.bytes(), cache.get(&key(1))), (0, None));
    }
}
