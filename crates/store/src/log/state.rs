//! What all callers share, and staging: giving a batch its place in the order.

use super::error::{BatchTooLarge, LogError};
use super::format::{Kind, RecordHeader, append_record};
use super::recover::Live;
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
    pub state: Mutex<State>,
    /// Written to the log: survives the process. Moves only under the lock; read without it.
    pub committed: AtomicU64,
    /// Synced: survives a power cut.
    pub durable: AtomicU64,
    pub committed_moved: Notify,
    pub durable_moved: Notify,
    /// Something was staged and nothing is known to be unsynced; or the log closed.
    pub wake_syncer: Notify,
    /// `SYNC_RECORDS` are unsynced.
    pub hurry_syncer: Notify,
    pub wake_keeper: Notify,
    pub spares_moved: Notify,
}

pub struct State {
    pub epoch: OwnerEpoch,
    /// The last batch staged.
    pub last: Seq,
    /// Checksum of the last record staged.
    pub chain: u32,
    /// Encoded records that wait for a writer, and the last batch among them and before.
    pub pending: Vec<u8>,
    /// An emptied buffer, kept for its memory.
    pub idle_buffer: Vec<u8>,
    /// Somebody writes; the others wait for it.
    pub writing: bool,
    /// Where the next record goes; moved by the writer only.
    pub tail: Tail,
    pub live: VecDeque<Live>,
    /// Ready for use, in the order of their numbers.
    pub spares: VecDeque<Arc<Segment>>,
    /// Behind the index now: to be removed, or used again if the disk is full.
    pub retired: VecDeque<Arc<Segment>>,
    /// The number of the next spare; numbers have no gaps.
    pub next_number: u64,
    /// The keeper is doing something.
    pub keeping: bool,
    /// The log is being stopped: the keeper begins nothing more.
    pub stopping: bool,
    /// The last try to make a spare found the disk full.
    pub full: bool,
    /// Segments with bytes that are not synced.
    pub unsynced: Vec<Arc<Segment>>,
    pub syncing: bool,
    /// When the oldest unsynced batch was staged.
    pub dirty_since: Option<BootTime>,
    /// The last batch that the sync under way or the last one covers.
    pub sync_covers: Seq,
    /// What the newest staged record says is durable.
    pub durable_said: Seq,
    pub closed: Option<LogError>,
    pub stats: LogStats,
}

#[derive(Clone)]
pub struct Tail {
    pub segment: Arc<Segment>,
    pub offset: u64,
}

impl State {
    pub fn is_unsynced(&mut self, segment: Arc<Segment>) {
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
        self.append(&mut state, next, (Kind::Batch, shard), false, body)?;
        state.last = next;
        state.stats.batches += 1;
        if state.dirty_since.is_none() {
            state.dirty_since = Some(self.platform.clock.boot());
            self.wake_syncer.notify_one();
        }
        if state.last.0 - state.sync_covers.0 >= self.options.sync_records {
            self.hurry_syncer.notify_one();
        }
        Ok(state.last)
    }

    /// A mark says what is durable and whose log this is. It is no batch: nobody waits for it, and it alone is no
    /// reason to sync.
    pub fn stage_mark(&self, state: &mut State, stopped: bool) {
        let last = state.last;
        let mark = self.append(state, last, (Kind::Mark, 0), stopped, |_| {});
        mark.expect("a mark has no body");
        state.stats.marks += 1;
    }

    /// Either the whole record is pending afterwards, or the state is as it was.
    fn append(
        &self,
        state: &mut State,
        seq: Seq,
        (kind, shard): (Kind, u16),
        stopped: bool,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), BatchTooLarge> {
        let header = RecordHeader {
            crc: 0,
            len: 0,
            previous: state.chain,
            kind,
            shard,
            seq,
            epoch: state.epoch,
            durable: self.durable(),
            body_len: 0,
            stopped,
        };
        if state.closed.is_some() {
            return Ok(()); // nobody will ever write it
        }
        let before = state.pending.len();
        let chain = append_record(&mut state.pending, self.seed, &header, body);
        let (bytes, most) = (state.pending.len() - before, self.options.record_max());
        if bytes > most {
            state.pending.truncate(before);
            return Err(BatchTooLarge { bytes, most });
        }
        state.chain = chain;
        state.durable_said = header.durable;
        state.stats.bytes += bytes as u64;
        Ok(())
    }

    /// Ends the log for good. Whoever waits learns why.
    pub fn close(&self, why: LogError) {
        let mut state = self.state.lock();
        if state.closed.is_some() {
            return; // the first failure is the one to tell
        }
        if !matches!(why, LogError::Stopped) {
            tracing::error!(error = %why, "the log closes");
        }
        state.closed = Some(why);
        drop(state);
        self.committed_moved.notify_waiters();
        self.durable_moved.notify_waiters();
        self.spares_moved.notify_waiters();
        // These two have one listener each, which may be busy: a stored wake-up is not lost.
        self.wake_syncer.notify_one();
        self.wake_keeper.notify_one();
    }

    pub fn check_open(&self) -> Result<(), LogError> {
        match &self.state.lock().closed {
            Some(why) => Err(why.clone()),
            None => Ok(()),
        }
    }
}

/// A background task that panics takes the log with it: others would wait for it for ever.
pub struct CloseOnPanic<'a>(pub &'a Shared);

impl Drop for CloseOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0
                .close(LogError::Abandoned("one of its tasks panicked".into()));
        }
    }
}
