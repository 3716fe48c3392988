//! The records in the memory of the test server.

use crate::{CachedRecord, KeyRange, RecordKey, RecordSource};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// The records that a driver has in memory for one operation.
pub struct CachedRecords<'a> {
    pub records: &'a BTreeMap<RecordKey, Bytes>,
    /// None: everything.
    pub fetched: Option<&'a BTreeSet<RecordKey>>,
    pub scanned: &'a [(KeyRange, usize)],
}

impl RecordSource for CachedRecords<'_> {
    fn get(&self, key: &RecordKey) -> CachedRecord {
        match self.fetched {
            Some(fetched) if !fetched.contains(key) => CachedRecord::Unknown,
            _ => CachedRecord::Value(self.records.get(key).cloned()),
        }
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Option<Vec<(RecordKey, Bytes)>> {
        let known = self.fetched.is_none() || self.scanned.contains(&(range.clone(), limit));
        let records = self
            .records
            .range(range.from.clone()..range.to.clone())
            .take(limit);
        known.then(|| {
            records
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        })
    }
}

/// A driver without a record in memory.
pub struct ColdRecords;

impl RecordSource for ColdRecords {
    fn get(&self, _: &RecordKey) -> CachedRecord {
        CachedRecord::Unknown
    }

    fn scan(&self, _: &KeyRange, _: usize) -> Option<Vec<(RecordKey, Bytes)>> {
        None
    }
}
