//! State of one object in memory: its segments, its in-flight changes, what is durable.

use super::in_flight::{InFlightChange, InFlightChanges};
use super::limits::SEGMENT;
use super::read_ahead::ReadAhead;
use super::record::ObjectRecord;
use super::region::{Region, blocks_of};
use super::sync_point::SyncPoint;
use super::write_behind::WriteBehind;
use gupfs_platform::{DiskFile, DiskStat};
use gupfs_proto::data::{ObjectOwner, ObjectStat};
use gupfs_proto::{ObjectId, Seq, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::Notify;

pub(super) struct Object {
    pub id: ObjectId,
    state: Mutex<ObjectState>,
    /// Serializes loading, creating and removing the object's files.
    pub files_lock: tokio::sync::Mutex<()>,
    /// Notified when an in-flight change ends.
    change_ended: Notify,
    /// Sync point of the data files; the sync points of their names are in `Dirs`.
    pub data_sync: SyncPoint,
    /// Used since the table last checked whether to evict it.
    pub used: AtomicBool,
}

pub(super) struct ObjectState {
    /// False: files and record must be loaded first.
    pub loaded: bool,
    /// Segment 0 exists whenever the object does.
    pub segments: BTreeMap<u32, SegmentFile>,
    pub mtime: Timestamp,
    pub in_flight: InFlightChanges,
    /// The owner as the last writer stated it.
    pub owner: ObjectOwner,
    /// The record as staged last; None before the first checksum flush.
    pub record: Option<ObjectRecord>,
    /// Regions in memory: all dirty ones whose checksums may still be flushed, and clean ones while there is memory. A
    /// region that is not here has no record if it is at or after `record.regions_end`; otherwise its record is to be
    /// loaded.
    pub regions: BTreeMap<u64, Region>,
    /// The last batch that deleted records of this object. Those records describe bytes that are gone, so new bytes
    /// wait until the batch is durable.
    pub records_deleted: Seq,
    /// Counts how often records of regions were staged or deleted: a task that loaded records before must load them
    /// again.
    pub records_version: u64,
    pub read_ahead: ReadAhead,
    pub write_behind: WriteBehind,
    /// The object is in the queue of the checksum flush.
    pub queued: bool,
    /// The target's number of dirty regions.
    pub dirty_regions: Arc<AtomicUsize>,
}

#[derive(Default)]
pub(super) struct SegmentFile {
    pub file: Option<DiskFile>,
    /// Used since the table last checked which files to close.
    pub used: bool,
    pub len: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks: u64,
}

impl SegmentFile {
    pub fn new(stat: &DiskStat, file: Option<DiskFile>) -> SegmentFile {
        SegmentFile {
            file,
            used: true,
            len: stat.len,
            blocks: stat.allocated / 512,
        }
    }

    /// Updates length and space after a write of `range`; false if only the file system knows the space.
    fn note_write(&mut self, range: &Range<u64>) -> bool {
        let whole = |len: u64| len.next_multiple_of(4096) / 512;
        let dense = self.blocks >= whole(self.len) && range.start <= self.len;
        self.len = self.len.max(range.end);
        if dense {
            self.blocks = self.blocks.max(whole(self.len));
        }
        dense
    }
}

impl ObjectState {
    pub fn exists(&self) -> bool {
        !self.segments.is_empty()
    }

    /// The size of the object.
    pub fn size(&self) -> u64 {
        let last = self.segments.last_key_value();
        last.map_or(0, |(number, segment)| {
            u64::from(*number) * SEGMENT + segment.len
        })
    }

    pub fn stat(&self) -> ObjectStat {
        ObjectStat {
            size: self.size(),
            blocks: self.segments.values().map(|segment| segment.blocks).sum(),
            mtime: self.mtime,
        }
    }

    /// Whether a write of `range` needs no new space: the range is within the object, which has no holes.
    pub fn has_space_for(&self, range: &Range<u64>) -> bool {
        let size = self.size();
        range.end <= size && self.segments.len() == 1 && self.stat().blocks >= size / 512
    }

    /// The file of a segment, if it is open.
    pub fn open_file(&mut self, segment: u32) -> Option<DiskFile> {
        let segment = self.segments.get_mut(&segment)?;
        segment.used = true;
        segment.file.clone()
    }

    /// Updates a segment after a write; false if its space must be read from the file system.
    pub fn note_write(&mut self, segment: u32, range: &Range<u64>) -> bool {
        match self.segments.get_mut(&segment) {
            Some(segment) => segment.note_write(range),
            None => false,
        }
    }
}

impl Object {
    pub fn new(id: ObjectId, dirty_regions: &Arc<AtomicUsize>) -> Object {
        let state = ObjectState {
            loaded: false,
            segments: BTreeMap::new(),
            mtime: Timestamp::default(),
            in_flight: InFlightChanges::default(),
            owner: ObjectOwner::default(),
            record: None,
            regions: BTreeMap::new(),
            records_deleted: Seq(0),
            read_ahead: ReadAhead::default(),
            write_behind: WriteBehind::default(),
            records_version: 0,
            queued: false,
            dirty_regions: Arc::clone(dirty_regions),
        };
        Object {
            id,
            state: Mutex::new(state),
            files_lock: tokio::sync::Mutex::new(()),
            change_ended: Notify::new(),
            data_sync: SyncPoint::unknown(),
            used: AtomicBool::new(true),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, ObjectState> {
        self.state.lock()
    }

    /// Begins a change of these bytes once no overlapping change is in flight.
    pub async fn begin_change(&self, range: Range<u64>) -> ChangeGuard<'_> {
        loop {
            let mut ended = std::pin::pin!(self.change_ended.notified());
            ended.as_mut().enable(); // before the check, so that an end in between is not missed
            if let Some(number) = self.state.lock().in_flight.begin(range.clone()) {
                return ChangeGuard {
                    object: self,
                    number,
                    bytes_changed: false,
                    finished: false,
                };
            }
            ended.await;
        }
    }

    /// Whether the object can be evicted without losing state.
    pub fn is_evictable(&self) -> bool {
        let state = self.state.lock();
        state.in_flight.is_idle() && self.data_sync.is_synced() && !state.queued
    }

    pub fn mark_used(&self) {
        self.used.store(true, Ordering::Relaxed);
    }
}

/// An in-flight change. If it is dropped before `end` (it failed, or its caller gave up), the checksums of the bytes
/// that it may have changed become unknown, and the object is loaded again.
pub(super) struct ChangeGuard<'a> {
    object: &'a Object,
    number: u64,
    /// Bytes may have changed. Before that a drop must clear no checksum: computing an unknown checksum anew accepts
    /// whatever bytes are there.
    bytes_changed: bool,
    finished: bool,
}

impl ChangeGuard<'_> {
    /// The change as it is now.
    pub fn span(&self) -> InFlightChange {
        self.object.state.lock().in_flight.span(self.number).clone()
    }

    /// Notes that the first byte is about to change.
    pub fn note_bytes_change(&mut self) {
        self.bytes_changed = true;
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Ends a change that took effect; `update` changes the object's state under the same lock.
    pub fn end<T>(mut self, update: impl FnOnce(&mut ObjectState, &InFlightChange) -> T) -> T {
        // Before the change ends: a task that finds nothing in flight and syncs must cover this change.
        self.object.data_sync.note_modified();
        let mut state = self.object.state.lock();
        self.finished = true;
        let span = state.in_flight.end(self.number);
        let result = update(&mut state, &span);
        drop(state);
        self.object.change_ended.notify_waiters();
        result
    }
}

impl Drop for ChangeGuard<'_> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // First, as in `end`: part of the change may have taken effect.
        self.object.data_sync.note_modified();
        let mut state = self.object.state.lock();
        let span = state.in_flight.end(self.number);
        if self.bytes_changed {
            state.set_checksums(blocks_of(&span.range), |_| None);
            state.loaded = false;
        }
        drop(state);
        self.object.change_ended.notify_waiters();
    }
}
