//! The store as the state machine sees it during one attempt.

use super::ScanCache;
use crate::limits::INLINE_READS;
use crate::shard::RecentKeys;
use crate::store::MetadataStore;
use bytes::Bytes;
use gupfs_namespace::{CachedRecord, KeyRange, RecordKey, RecordSource};
use gupfs_proto::Seq;
use gupfs_store::kv::{Kv, KvError, PeekResult};
use std::cell::{Cell, RefCell};

/// The records for one attempt: their newest state, and the newest uncommitted batch that it saw.
pub struct StoreView<'a> {
    store: &'a MetadataStore,
    kv: &'a Kv,
    scanned: &'a ScanCache<'a>,
    recent: &'a RecentKeys,
    newest: Cell<Seq>,
    /// How many more records may be read from the index while other requests wait for the shard.
    reads_left: Cell<usize>,
    failed: RefCell<Option<KvError>>,
}

impl<'a> StoreView<'a> {
    pub fn new(
        store: &'a MetadataStore,
        kv: &'a Kv,
        scanned: &'a ScanCache<'a>,
        recent: &'a RecentKeys,
    ) -> StoreView<'a> {
        StoreView {
            store,
            kv,
            scanned,
            recent,
            newest: Cell::new(Seq(0)),
            reads_left: Cell::new(if store.are_reads_quick() {
                INLINE_READS
            } else {
                0
            }),
            failed: RefCell::new(None),
        }
    }

    pub fn newest(&self) -> Seq {
        self.newest.get()
    }

    /// The error of the index, if a read failed.
    pub fn failure(&self) -> Option<KvError> {
        self.failed.borrow_mut().take()
    }

    fn saw(&self, seq: Seq) {
        self.newest.set(self.newest.get().max(seq));
    }

    /// Reads the index in this thread.
    ///
    /// Nearly every change needs keys that no request needed before: it checks that a new name does not exist yet. The index
    /// knows that from memory in 2 µs, while a hand-off to another thread costs 25 to 50 and the operation begins again after it.
    /// So the view reads a few keys here, as long as such reads are quick; after a slow one it reads none for a while.
    fn read(&self, key: &RecordKey) -> CachedRecord {
        let left = self.reads_left.get();
        if left == 0 {
            return CachedRecord::Unknown;
        }
        self.reads_left.set(left - 1);
        let (read, is_slow) = self.store.read_for_attempt(key);
        if is_slow {
            self.reads_left.set(0);
        }
        match read {
            Ok(value) => CachedRecord::Value(value),
            Err(error) => {
                self.failed.replace(Some(error));
                CachedRecord::Unknown
            }
        }
    }
}

impl RecordSource for StoreView<'_> {
    fn get(&self, key: &RecordKey) -> CachedRecord {
        match self.kv.peek(key.as_bytes()) {
            PeekResult::Known { value, uncommitted } => {
                if let Some(seq) = uncommitted {
                    self.saw(seq);
                }
                CachedRecord::Value(value)
            }
            // The key is not staged, and no other task stages while this one has the lock: the value in the index is committed.
            PeekResult::Unknown => self.read(key),
        }
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Option<Vec<(RecordKey, Bytes)>> {
        let scan = self.scanned.of(range, limit)?;
        if !self.recent.covers(scan.begun) {
            return None;
        }
        let mut records = scan.records.clone();
        for key in self.recent.range(&range.from, &range.to) {
            match self.get(key) {
                CachedRecord::Value(Some(value)) => records.insert(key.clone(), value),
                CachedRecord::Value(None) => records.remove(key),
                CachedRecord::Unknown => return None,
            };
        }
        // Behind the end of the scan only the noted keys are known.
        if let Some(end) = &scan.ended_at {
            records.split_off(&end.successor());
            if records.len() < limit {
                return None;
            }
        }
        self.saw(scan.seq);
        Some(records.into_iter().take(limit).collect())
    }
}
