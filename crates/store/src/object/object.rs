//! State of one object in memory: its segments, its in-flight changes, what is durable.

use super::early_write_back::EarlyWriteBack;
use super::in_flight::{InFlightChange, InFlightChanges};
use super::limits::SEGMENT;
use super::object_regions::ObjectRegions;
use super::paths::{segment_of, split_by_segment};
use super::read_ahead::ReadAhead;
use super::region::blocks_of;
use super::segment_file::SegmentFile;
use super::sync_point::SyncPoint;
use gupfs_platform::DiskFile;
use gupfs_proto::data::{ObjectOwner, ObjectStat};
use gupfs_proto::{ObjectId, Timestamp};
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
    pub regions: ObjectRegions,
    pub read_ahead: ReadAhead,
    pub early_write_back: EarlyWriteBack,
    /// The object is in the queue of the checksum flush.
    pub queued: bool,
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

    /// The checksums of blocks for a reader; None where they are unknown or the block is changing.
    pub fn stable_checksums(&self, blocks: Range<u64>) -> Vec<Option<u32>> {
        let size = self.size();
        let mut sums: Vec<Option<u32>> = blocks
            .clone()
            .map(|block| self.regions.checksum(block, size))
            .collect();
        for range in self.in_flight.active_ranges() {
            clear_checksums(&mut sums, &blocks, range);
        }
        sums
    }

    /// Clears the checksums of blocks that began to change after `last_change`: the reader may have read old or new
    /// bytes.
    pub fn clear_changed_checksums(
        &self,
        sums: &mut [Option<u32>],
        blocks: &Range<u64>,
        last_change: u64,
    ) {
        match self.in_flight.changed_since(last_change) {
            Some(changed) => changed.for_each(|range| clear_checksums(sums, blocks, range)),
            None => sums.fill(None),
        }
    }

    /// Whether the file had this byte, and no change has begun since that could have cut it off.
    pub fn had_byte(&self, at: u64, last_change: u64) -> bool {
        let segment = self.segments.get(&segment_of(at));
        let reached = segment.is_some_and(|segment| segment.len > at % SEGMENT);
        let changed = self.in_flight.changed_since(last_change);
        reached && changed.is_some_and(|mut changed| !changed.any(|range| range.contains(&at)))
    }
}

impl Object {
    pub fn new(id: ObjectId, dirty_count: &Arc<AtomicUsize>) -> Object {
        let state = ObjectState {
            loaded: false,
            segments: BTreeMap::new(),
            mtime: Timestamp::default(),
            in_flight: InFlightChanges::default(),
            owner: ObjectOwner::default(),
            regions: ObjectRegions::new(dirty_count),
            read_ahead: ReadAhead::default(),
            early_write_back: EarlyWriteBack::default(),
            queued: false,
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

    /// Keeps changes of these bytes from beginning once none is in flight, while readers find what they find without it.
    pub async fn close_to_changes(&self, range: Range<u64>) -> ClosedRange<'_> {
        loop {
            let mut ended = std::pin::pin!(self.change_ended.notified());
            ended.as_mut().enable();
            if self.state.lock().in_flight.close(&range) {
                return ClosedRange {
                    object: self,
                    range,
                };
            }
            ended.await;
        }
    }

    /// Starts reading ahead the bytes that a sequential reader needs next, within the same segment.
    pub fn read_ahead(&self, range: &Range<u64>) {
        let mut state = self.state();
        let Some(next) = state.read_ahead.next(range) else {
            return;
        };
        let end = next.end.min(state.size());
        if next.start >= end {
            return;
        }
        let first = split_by_segment(next.start, end - next.start).next();
        if let Some(part) = first
            && let Some(file) = state.open_file(part.segment)
        {
            drop(state);
            file.read_ahead(part.at, part.range.end - part.range.start);
        }
    }

    /// Starts the write-back of a large run of written bytes; leaves a run across two segments to the kernel.
    pub fn start_early_write_back(&self, range: &Range<u64>) {
        let mut state = self.state();
        let Some(stretch) = state.early_write_back.note_write(range) else {
            return;
        };
        let mut all = split_by_segment(stretch.start, stretch.end - stretch.start);
        if let (Some(part), None) = (all.next(), all.next())
            && let Some(file) = state.open_file(part.segment)
        {
            drop(state);
            file.start_write_back(part.at, part.range.end - part.range.start);
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

/// Bytes that no change may change. Ends when it is dropped.
pub(super) struct ClosedRange<'a> {
    object: &'a Object,
    range: Range<u64>,
}

impl Drop for ClosedRange<'_> {
    fn drop(&mut self) {
        // Bytes may have been written.
        self.object.data_sync.note_modified();
        self.object.state.lock().in_flight.open(&self.range);
        self.object.change_ended.notify_waiters();
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
            state
                .regions
                .set_checksums(blocks_of(&span.range), |_| None);
            state.loaded = false;
        }
        drop(state);
        self.object.change_ended.notify_waiters();
    }
}

fn clear_checksums(sums: &mut [Option<u32>], blocks: &Range<u64>, changed: &Range<u64>) {
    let changed = blocks_of(changed);
    let from = changed.start.max(blocks.start);
    let to = changed.end.min(blocks.end);
    for block in from..to {
        sums[(block - blocks.start) as usize] = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::region::Region;
    use gupfs_proto::limits::{REGION, REGION_BLOCKS};
    use gupfs_proto::{Generation, InodeId};

    const ID: ObjectId = ObjectId {
        ino: InodeId(1),
        generation: Generation(1),
        stripe: 0,
    };

    #[test]
    fn a_reader_gets_no_checksum_of_a_changing_block() {
        let object = Object::new(ID, &Arc::default());
        let mut state = object.state();
        let segment = SegmentFile {
            len: 40 * REGION,
            ..SegmentFile::default()
        };
        state.segments.insert(0, segment);
        let region = Region::new_clean(REGION, &[7; REGION_BLOCKS]);
        state.regions.in_memory.insert(0, region);
        let last_change = state.in_flight.last_begun();
        let number = state.in_flight.begin(4096..8192).unwrap();
        assert_eq!(state.stable_checksums(0..3), [Some(7), None, Some(7)]);
        let mut sums = vec![Some(7); 3];
        state.clear_changed_checksums(&mut sums, &(0..3), last_change);
        assert_eq!(sums, [Some(7), None, Some(7)]);
        state.in_flight.end(number);
        assert_eq!(state.stable_checksums(0..3), [Some(7); 3]);
    }
}
