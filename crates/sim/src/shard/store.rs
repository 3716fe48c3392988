//! The records, and the batches that made them: staged, committed, durable. A crash keeps a prefix of the batches.

use bytes::Bytes;
use gupfs_namespace::{CachedRecord, KeyRange, RecordBatch, RecordKey, RecordSource};
use std::collections::{BTreeMap, VecDeque};

type Map = BTreeMap<RecordKey, Bytes>;

pub struct Store {
    /// The records with all staged batches applied.
    pub records: Map,
    /// The records with all durable batches applied.
    base: Map,
    /// The batches after `durable`.
    log: VecDeque<RecordBatch>,
    pub last: u64,
    pub committed: u64,
    pub durable: u64,
}

impl Store {
    pub fn new(first: RecordBatch) -> Store {
        let mut records = Map::new();
        apply_batch(&mut records, &first);
        Store {
            base: records.clone(),
            records,
            log: VecDeque::new(),
            last: 0,
            committed: 0,
            durable: 0,
        }
    }

    pub fn stage(&mut self, batch: RecordBatch) -> u64 {
        apply_batch(&mut self.records, &batch);
        self.log.push_back(batch);
        self.last += 1;
        self.last
    }

    pub fn sync(&mut self, up_to: u64) {
        while self.durable < up_to {
            let batch = self.log.pop_front().expect("staged and not durable");
            apply_batch(&mut self.base, &batch);
            self.durable += 1;
        }
    }

    /// Keeps the batches up to `kept_seq`; they are durable before the next instance serves.
    pub fn crash(&mut self, kept_seq: u64) {
        self.sync(kept_seq);
        self.log.clear();
        self.records = self.base.clone();
        (self.last, self.committed) = (kept_seq, kept_seq);
    }
}

fn apply_batch(records: &mut Map, batch: &RecordBatch) {
    for (key, value) in batch {
        match value {
            Some(value) => records.insert(key.clone(), value.clone()),
            None => records.remove(key),
        };
    }
}

impl RecordSource for Store {
    fn get(&self, key: &RecordKey) -> CachedRecord {
        CachedRecord::Value(self.records.get(key).cloned())
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Option<Vec<(RecordKey, Bytes)>> {
        let records = self.records.range(range.from.clone()..range.to.clone());
        let some = records.take(limit);
        Some(
            some.map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        )
    }
}
