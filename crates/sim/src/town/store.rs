//! Records and the batches that made them: staged, committed, durable, and what a crash keeps.

use bytes::Bytes;
use gupfs_namespace::{CachedRecord, KeyRange, RecordBatch, RecordKey, RecordSource};
use std::collections::{BTreeMap, VecDeque};

type Map = BTreeMap<RecordKey, Bytes>;

pub struct Store {
    /// With everything staged.
    pub records: Map,
    /// With everything durable.
    base: Map,
    /// Batches behind `durable`.
    log: VecDeque<RecordBatch>,
    pub last: u64,
    pub committed: u64,
    pub durable: u64,
}

impl Store {
    pub fn new(first: RecordBatch) -> Store {
        let mut records = Map::new();
        put(&mut records, &first);
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
        put(&mut self.records, &batch);
        self.log.push_back(batch);
        self.last += 1;
        self.last
    }

    pub fn sync(&mut self, upto: u64) {
        while self.durable < upto {
            let batch = self.log.pop_front().expect("staged and not durable");
            put(&mut self.base, &batch);
            self.durable += 1;
        }
    }

    /// Of the batches those up to `kept` are there again; they are durable when the next owner serves.
    pub fn crash(&mut self, kept: u64) {
        self.sync(kept);
        self.log.clear();
        self.records = self.base.clone();
        (self.last, self.committed) = (kept, kept);
    }
}

fn put(records: &mut Map, batch: &RecordBatch) {
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
