//! Records read or applied lately, bounded. A clock hand goes round: what was used since it came by last stays, the rest
//! makes room; each record put in costs a step or two of it, never a sweep.

use super::limits::RECORD_OVERHEAD;
use bytes::Bytes;
use gupfs_platform::hash::BuildHasher;
use hashbrown::HashTable;
use std::hash::BuildHasher as _;

pub struct Cache {
    /// Where in `slots` a key lies.
    table: HashTable<u32>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    hand: usize,
    hasher: BuildHasher,
    bytes: usize,
    limit: usize,
}

struct Slot {
    key: Bytes,
    value: Option<Bytes>,
    used: bool,
}

impl Cache {
    pub fn new(limit: usize) -> Cache {
        Cache {
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            hasher: BuildHasher::default(),
            bytes: 0,
            limit,
        }
    }

    /// What is known of a key: its value, or that there is none.
    pub fn get(&mut self, key: &[u8]) -> Option<Option<Bytes>> {
        let at = self.find(key)?;
        let slot = self.slots[at as usize].as_mut().expect("found");
        slot.used = true;
        Some(slot.value.clone())
    }

    pub fn put(&mut self, key: Bytes, value: Option<Bytes>) {
        self.bytes += cost(&key, &value);
        match self.find(&key) {
            Some(at) => {
                let slot = self.slots[at as usize].as_mut().expect("found");
                self.bytes -= cost(&slot.key, &slot.value);
                (slot.key, slot.value, slot.used) = (key, value, true);
            }
            None => self.insert(key, value),
        }
        while self.bytes > self.limit {
            self.turn();
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    fn find(&self, key: &[u8]) -> Option<u32> {
        let slots = &self.slots;
        let same = |at: &u32| slots[*at as usize].as_ref().is_some_and(|s| s.key == key);
        self.table.find(self.hash(key), same).copied()
    }

    fn insert(&mut self, key: Bytes, value: Option<Bytes>) {
        let hash = self.hash(&key);
        // Not used yet, or what is looked at once would push out what is looked at often. It lies behind the hand, in the
        // place of what went last, so it stays for a whole round.
        let slot = Some(Slot {
            key,
            value,
            used: false,
        });
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        let (slots, hasher) = (&self.slots, &self.hasher);
        let hash_of = |at: &u32| {
            let slot = slots[*at as usize].as_ref().expect("in the table");
            hasher.hash_one(&slot.key[..])
        };
        self.table.insert_unique(hash, at, hash_of);
    }

    /// One step of the hand.
    fn turn(&mut self) {
        let at = self.hand % self.slots.len();
        self.hand = at + 1;
        let Some(slot) = &mut self.slots[at] else {
            return;
        };
        if std::mem::take(&mut slot.used) {
            return;
        }
        let slot = self.slots[at].take().expect("looked at above");
        self.bytes -= cost(&slot.key, &slot.value);
        let hash = self.hash(&slot.key);
        if let Ok(entry) = self.table.find_entry(hash, |found| *found == at as u32) {
            entry.remove();
        }
        self.free.push(at as u32);
    }
}

/// Memory of a record, about.
pub fn cost(key: &Bytes, value: &Option<Bytes>) -> usize {
    key.len() + value.as_ref().map_or(0, Bytes::len) + RECORD_OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_platform::fake::FakeDice;
    use std::collections::BTreeMap;

    fn key(number: u32) -> Bytes {
        Bytes::copy_from_slice(&number.to_be_bytes())
    }

    #[test]
    fn it_stays_within_its_bound_and_keeps_what_is_used() {
        let limit = 100 * (4 + RECORD_OVERHEAD);
        let mut cache = Cache::new(limit);
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
        assert!(cache.slots.len() <= 101);
    }

    #[test]
    fn the_last_word_counts() {
        let mut cache = Cache::new(1 << 20);
        cache.put(key(1), Some(Bytes::from_static(b"old")));
        cache.put(key(1), None);
        assert_eq!(cache.get(&key(1)), Some(None));
        assert_eq!(cache.bytes(), 4 + RECORD_OVERHEAD);
    }

    #[test]
    fn what_it_knows_is_what_a_map_knows() {
        let dice = FakeDice::new(1);
        let (mut cache, mut map) = (Cache::new(10_000), BTreeMap::new());
        let mut hits = 0;
        for _ in 0..100_000 {
            let key = key(dice.below(200) as u32);
            if dice.one_in(2) {
                let value = Bytes::from(vec![dice.u64() as u8; dice.below(300) as usize]);
                let value = (!dice.one_in(4)).then_some(value);
                map.insert(key.clone(), value.clone());
                cache.put(key, value);
            } else if let Some(value) = cache.get(&key) {
                assert_eq!(Some(&value), map.get(&key));
                hits += 1;
            }
            let sum: usize = (cache.slots.iter().flatten())
                .map(|slot| cost(&slot.key, &slot.value))
                .sum();
            assert_eq!(
                (sum, cache.table.len()),
                (cache.bytes, cache.slots.len() - cache.free.len())
            );
        }
        assert!(hits > 1000, "{hits}");
    }

    #[test]
    fn a_record_larger_than_the_cache_is_not_kept() {
        let mut cache = Cache::new(200);
        cache.put(key(1), Some(Bytes::from(vec![0; 1000])));
        assert_eq!((cache.bytes(), cache.get(&key(1))), (0, None));
    }
}
