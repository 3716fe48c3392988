//! State that all callers of a log share, and staging, which gives a batch its position in the log.

use super::error::{BatchTooLarge, LogError};
use super::format::{LogRecordKind, RecordHeader, append_record};
use super::position::LogPosition;
use super::segment::LiveSegment;
use super::segment::Segment;
use super::{LogOptions, LogStats};
use gupfs_platform::{BootTime, Disk, Platform};
use gupfs_proto::{OwnerEpoch, Seq};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

pub struct Shared {
    pub disk: Disk,
    pub platform: Platform,
    pub options: LogOptions,
    pub seed: u32,
    pub state: Mutex<LogState>,
    /// The last batch that is written, so that it survives the process. Changes only under the lock; is read without
    /// it.
    pub committed: AtomicU64,
    /// The last batch that is synced, so that it survives a power loss.
    pub durable: AtomicU64,
    pub committed_changed: Notify,
    pub durable_changed: Notify,
    /// Wakes the syncer: the first batch after a sync was staged, or the log has closed.
    pub wake_syncer: Notify,
    /// Wakes the syncer at once: `SYNC_RECORDS` batches are unsynced.
    pub sync_now: Notify,
    pub wake_segment_manager: Notify,
    pub spares_changed: Notify,
}

pub struct LogState {
    pub epoch: OwnerEpoch,
    /// The last staged batch.
    pub last: Seq,
    /// Checksum of the last staged record.
    pub last_crc: u32,
    /// The end of the records that are written, here and at the copies.
    pub written: LogPosition,
    /// Encoded records that no writer has taken yet; `last` is the last batch among them or before them.
    pub pending: Vec<u8>,
    /// An empty buffer, kept so that its memory is reused.
    pub idle_buffer: Vec<u8>,
    /// A task is writing; the others wait for it.
    pub writing: bool,
    /// Where the next record is written; only the writer changes it.
    pub tail: LogTail,
    pub live: VecDeque<LiveSegment>,
    /// First batches of the segments that copies of the index still need: neither they nor later segments are removed.
    pub kept: Vec<Seq>,
    /// Spare segments, in the order of their numbers.
    pub spares: VecDeque<Arc<Segment>>,
    /// Segments that the index no longer needs; the background task removes them, or reuses them as spares.
    pub retired: VecDeque<Arc<Segment>>,
    /// The number of the next spare. Numbers have no gaps.
    pub next_number: u64,
    /// The background task for segments is in the middle of an operation.
    pub manager_busy: bool,
    /// The log is stopping: the background task begins no further operation.
    pub stopping: bool,
    /// The last attempt to create a spare found the disk full.
    pub disk_full: bool,
    /// Segments with unsynced bytes.
    pub unsynced: Vec<Arc<Segment>>,
    pub syncing: bool,
    /// Time at which the oldest unsynced batch was staged.
    pub dirty_since: Option<BootTime>,
    /// The last batch that the running sync, or else the last sync, covers.
    pub sync_covers: Seq,
    /// The last durable batch as the newest staged record states it.
    pub durable_recorded: Seq,
    pub closed: Option<LogError>,
    pub stats: LogStats,
}

#[derive(Clone)]
pub struct LogTail {
    pub segment: Arc<Segment>,
    pub offset: u64,
}

impl LogState {
    /// The end of the staged records.
    pub fn end(&self) -> LogPosition {
        LogPosition {
            last: self.last,
            crc: self.last_crc,
        }
    }

    pub fn note_unsynced(&mut self, segment: Arc<Segment>) {
        if !self.unsynced.iter().any(|s| s.number == segment.number) {
            self.unsynced.push(segment);
        }
    }
}

impl Shared {
    pub fn committed(&self) -> Seq {
        Seq(self.committed.load(Ordering::Acquire))
    }

    pub fn durable(&self) -> Seq {
        Seq(self.durable.load(Ordering::Acquire))
    }

    pub fn stage(&self, shard: u16, body: impl FnOnce(&mut Vec<u8>)) -> Result<Seq, BatchTooLarge> {
        let mut state = self.state.lock();
        let next = Seq(state.last.0 + 1);
        self.append(&mut state, next, (LogRecordKind::Batch, shard), false, body)?;
        state.last = next;
        state.stats.batches += 1;
        if state.dirty_since.is_none() {
            state.dirty_since = Some(self.platform.clock.boot());
            self.wake_syncer.notify_one();
        }
        if state.last.0 - state.sync_covers.0 >= self.options.sync_records {
            self.sync_now.notify_one();
        }
        Ok(state.last)
    }

    /// Stages a watermark: a record that states the owner's epoch and the last durable batch. It is no batch: no caller
    /// waits for it, and it alone causes no sync.
    pub fn stage_watermark(&self, state: &mut LogState, clean_stop: bool) {
        let last = state.last;
        let watermark = self.append(
            state,
            last,
            (LogRecordKind::Watermark, 0),
            clean_stop,
            |_| {},
        );
        watermark.expect("a watermark has no body");
        state.stats.watermarks += 1;
    }

    /// Appends a record to the pending ones. On an error the state is unchanged.
    fn append(
        &self,
        state: &mut LogState,
        seq: Seq,
        (kind, shard): (LogRecordKind, u16),
        clean_stop: bool,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), BatchTooLarge> {
        let header = RecordHeader {
            crc: 0,
            len: 0,
            previous: state.last_crc,
            kind,
            shard,
            seq,
            epoch: state.epoch,
            durable: self.durable(),
            body_len: 0,
            clean_stop,
        };
        if state.closed.is_some() {
            return Ok(()); // no task writes it any more
        }
        let before = state.pending.len();
        let last_crc = append_record(&mut state.pending, self.seed, &header, body);
        let (bytes, most) = (state.pending.len() - before, self.options.record_max());
        if bytes > most {
            state.pending.truncate(before);
            return Err(BatchTooLarge { bytes, most });
        }
        state.last_crc = last_crc;
        state.durable_recorded = header.durable;
        state.stats.bytes += bytes as u64;
        Ok(())
    }

    /// Closes the log until it is opened again. All waiting callers return `why`.
    pub fn close(&self, why: LogError) {
        let mut state = self.state.lock();
        if state.closed.is_some() {
            return; // the first error is the cause, later ones are its consequences
        }
        if !matches!(why, LogError::Stopped) {
            tracing::error!(error = %why, "the log closes and acknowledges nothing more");
            if let Some(copies) = self.options.copies.get() {
                copies.failed(&why);
            }
        }
        state.closed = Some(why);
        drop(state);
        self.committed_changed.notify_waiters();
        self.durable_changed.notify_waiters();
        self.spares_changed.notify_waiters();
        // Each of these two has one listener, which may be busy: `notify_one` stores the wake-up for it.
        self.wake_syncer.notify_one();
        self.wake_segment_manager.notify_one();
    }

    pub fn check_open(&self) -> Result<(), LogError> {
        match &self.state.lock().closed {
            Some(why) => Err(why.clone()),
            None => Ok(()),
        }
    }
}

/// Closes the log if a background task panics; otherwise callers would wait forever for that task.
pub struct CloseOnPanic<'a>(pub &'a Shared);

impl Drop for CloseOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close(LogError::Aborted(
                "a background task of the log panicked".into(),
            ));
        }
    }
}
