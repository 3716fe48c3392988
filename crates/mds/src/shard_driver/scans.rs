//! The scans of one operation.
//!
//! The driver scans outside the shard's lock; the state machine then runs under the lock. For one consistent state, the driver
//! notes the keys that are staged while a scan is open, and overlays them on what it read (`RecentKeys`).

use crate::origin::RequestOrigin;
use crate::shard::Shard;
use crate::store::MetadataStore;
use bytes::Bytes;
use gupfs_namespace::{KeyRange, RecordKey};
use gupfs_proto::{FsError, Seq};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Records read beyond what a scan wants, so that a few removals in the meantime do not make it short.
pub(super) const SCAN_SPARE: usize = 64;

/// The scans of one operation so far. While it lives, `RecentKeys` notes staged keys.
pub struct ScanCache<'a> {
    store: &'a MetadataStore,
    shard: &'a Mutex<Shard>,
    scans: Vec<CachedScan>,
    is_open: bool,
}

pub struct CachedScan {
    range: KeyRange,
    limit: usize,
    pub records: BTreeMap<RecordKey, Bytes>,
    /// The last record read, if there may be more behind it.
    pub ended_at: Option<RecordKey>,
    /// Keys staged after this batch were noted.
    pub begun: Seq,
    /// All records read are in batches up to here.
    pub seq: Seq,
}

impl Drop for ScanCache<'_> {
    fn drop(&mut self) {
        if self.is_open {
            self.shard.lock().recent.close();
        }
    }
}

impl<'a> ScanCache<'a> {
    pub fn new(store: &'a MetadataStore, shard: &'a Mutex<Shard>) -> ScanCache<'a> {
        ScanCache {
            store,
            shard,
            scans: Vec::new(),
            is_open: false,
        }
    }

    pub fn of(&self, range: &KeyRange, limit: usize) -> Option<&CachedScan> {
        self.scans
            .iter()
            .find(|scan| scan.range == *range && scan.limit >= limit)
    }

    /// Reads a range for the operation, in place of an earlier scan of it.
    pub async fn read(
        &mut self,
        origin: RequestOrigin,
        range: KeyRange,
        limit: usize,
    ) -> Result<(), FsError> {
        let begun = self.begin();
        let want = limit + SCAN_SPARE;
        let records = self.store.wait_scan(origin, &range, want).await??;
        let ended_at = match records.last() {
            Some((last, _)) if records.len() == want => Some(last.clone()),
            _ => None,
        };
        self.scans.retain(|scan| scan.range != range);
        self.scans.push(CachedScan {
            range,
            limit,
            records: records.into_iter().collect(),
            ended_at,
            begun,
            seq: self.store.last_seq(),
        });
        Ok(())
    }

    fn begin(&mut self) -> Seq {
        let mut shard = self.shard.lock();
        if !self.is_open {
            self.is_open = true;
            shard.recent.open();
        }
        self.store.last_seq()
    }
}
