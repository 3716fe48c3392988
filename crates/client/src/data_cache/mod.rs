//! # data_cache: bytes of files that this client has read, as long as a lease covers them
//!
//! Owns   the cached bytes, the lease to which they belong, their bound; which ranges are being read ahead.
//! Never  decides whether a lease is in force, or reads an object: callers pass the lease's number and the bytes.
//! Enter  at `DataCache::get` before a read, `DataCache::put` after it, `DataCache::forget` before a change of this client.
//!
//! A caller that reads or changes bytes has locked their range of the file. So what a read puts here, no change of this client has overtaken;
//! what another client changes ends the lease first, and bytes of a former lease are never returned.

mod extents;
mod streams;

pub use extents::{ByteRange, CachedRead};
pub use streams::ReadStreams;

use crate::lease_number::LeaseNumber;
use bytes::Bytes;
use extents::{Extents, SEGMENT_MIN};
use gupfs_platform::hash::Map;
use gupfs_proto::InodeId;
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::Notify;

pub struct DataCache {
    is_on: bool,
    cached: Mutex<Extents>,
    /// Ranges that tasks read ahead now.
    read_ahead: Mutex<Map<InodeId, Vec<ByteRange>>>,
    /// Notified when one of them has ended.
    changed: Notify,
}

impl DataCache {
    pub fn new(bytes_max: usize) -> Arc<DataCache> {
        Arc::new(DataCache {
            is_on: bytes_max > 0,
            cached: Mutex::new(Extents::new(bytes_max, SEGMENT_MIN)),
            read_ahead: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Whether anything is kept. If not, changes and forgotten inodes take no lock here.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// The bytes of the range up to the file's end, if all of them are here and belong to this lease.
    pub fn get(&self, ino: InodeId, lease: LeaseNumber, range: ByteRange) -> Option<Vec<Bytes>> {
        self.cached.lock().get(ino, lease, range)
    }

    /// Bytes that were read while this lease was in force, all the time. Of another lease of the file nothing stays.
    pub fn put(&self, ino: InodeId, lease: LeaseNumber, read: CachedRead<'_>) {
        self.cached.lock().put(ino, lease, read);
    }

    /// This client is about to change these bytes, or to end its lease: it has locked the range.
    pub fn forget(&self, ino: InodeId, range: ByteRange) {
        if self.is_on {
            self.cached.lock().forget(ino, range);
        }
    }

    pub fn forget_file(&self, ino: InodeId) {
        if self.is_on {
            self.cached.lock().forget_file(ino);
        }
    }

    pub fn clear(&self) {
        self.cached.lock().clear();
    }

    /// Bytes that are cached.
    pub fn bytes(&self) -> usize {
        self.cached.lock().bytes()
    }

    /// A task is about to read the range ahead. It ends with the guard.
    pub fn start_read_ahead(self: &Arc<Self>, ino: InodeId, range: ByteRange) -> ReadAheadGuard {
        let mut running = self.read_ahead.lock();
        running.entry(ino).or_default().push(range.clone());
        ReadAheadGuard {
            cache: self.clone(),
            ino,
            range,
        }
    }

    /// Whether a part of the range is being read ahead.
    pub fn is_read_ahead(&self, ino: InodeId, range: &ByteRange) -> bool {
        let running = self.read_ahead.lock();
        let overlaps = |other: &ByteRange| other.start < range.end && range.start < other.end;
        (running.get(&ino)).is_some_and(|ranges| ranges.iter().any(overlaps))
    }

    /// Returns when no part of the range is being read ahead. The caller must hold no lock of the file.
    pub async fn wait_for_read_ahead(&self, ino: InodeId, range: &ByteRange) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if !self.is_read_ahead(ino, range) {
                return;
            }
            changed.await;
        }
    }
}

pub struct ReadAheadGuard {
    cache: Arc<DataCache>,
    ino: InodeId,
    range: ByteRange,
}

impl Drop for ReadAheadGuard {
    fn drop(&mut self) {
        {
            let mut running = self.cache.read_ahead.lock();
            if let Some(ranges) = running.get_mut(&self.ino) {
                if let Some(index) = ranges.iter().position(|range| *range == self.range) {
                    ranges.swap_remove(index);
                }
                if ranges.is_empty() {
                    running.remove(&self.ino);
                }
            }
        }
        self.cache.changed.notify_waiters();
    }
}
