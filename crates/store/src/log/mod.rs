//! # log: write-ahead log of a store's batches
//!
//! Owns   segments and records (`docs/formats/log.md`), group commit, syncing, and recovery after a crash.
//! Never  knows the meaning of a batch.
//! Enter  at `Log::open`. A batch goes through `stage` → `commit` → `make_durable`.
//!
//! Staging gives a batch its position in the log (no I/O). A committed batch survives the end of the process, a durable
//! batch a power loss. Batches are staged, committed and become durable in the order of their seqs. The first failed
//! write or sync closes the log until it is opened again.
//!
//! A log may have copies on other hosts (`LogCopies`): a batch is committed when all that count have it in memory, and durable when
//! all have synced it. On such a host `LogCopy` keeps the log.

mod catch_up;
mod chain_scan;
mod commit;
mod copies;
mod copy;
mod error;
mod format;
mod keep;
pub mod limits;
mod position;
mod recover;
mod replay;
mod segment;
mod segment_manager;
mod state;
mod survey;
mod sync;

pub use copies::{CopyFuture, CopySet, LogCopies, RecordGroup};
pub use copy::{CopiedLog, LogCopy};
pub use error::{AppendError, BatchTooLarge, LogError};
pub use format::StoreId;
pub use keep::KeptRecords;
pub use position::LogPosition;
pub use recover::TornTail;
pub use replay::{LogReplay, LoggedBatch};
pub use survey::{LogSurvey, LogSurveyFindings};

use gupfs_platform::{Disk, Platform, Task};
use gupfs_proto::{OwnerEpoch, Seq};
use parking_lot::Mutex;
use recover::{LogKeeper, RecoveredLog};
use segment::{LiveSegment, Segment};
use state::{LogState, LogTail, Shared};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::sync::Notify;

#[derive(Clone, Debug)]
pub struct LogOptions {
    pub store: StoreId,
    /// Epoch of the owner that writes from now on; None takes the epoch after the last one in the log.
    pub epoch: Option<OwnerEpoch>,
    pub segment_bytes: u64,
    pub sync_every: Duration,
    pub sync_records: u64,
    /// Creates a log behind a non-empty index, whose first batch follows the last one in the index. For a store that
    /// was made from the readable part of another store.
    pub start_after_index: bool,
    /// Where the log's records also go, and what must have them before they are committed or durable.
    pub copies: CopySet,
    /// The records after this position are dropped as if a power loss had torn them: no copy of the log counts them.
    pub end_at: Option<LogPosition>,
}

impl LogOptions {
    pub fn new(store: StoreId) -> LogOptions {
        LogOptions {
            store,
            epoch: None,
            segment_bytes: limits::SEGMENT_BYTES,
            sync_every: limits::SYNC_EVERY,
            sync_records: limits::SYNC_RECORDS,
            start_after_index: false,
            copies: CopySet::default(),
            end_at: None,
        }
    }

    /// Largest record that fits into a segment of this size.
    pub fn record_max(&self) -> usize {
        limits::RECORD_MAX.min((self.segment_bytes - limits::HEADER_BYTES) as usize)
    }
}

/// Whether the disk has space for the log to continue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Headroom {
    Plenty,
    /// The next segment could not be created. This many bytes are left, for operations that free space; the owner must
    /// refuse operations that grow the store.
    Low(u64),
    /// There is not even space for a removal.
    None,
}

/// How the owner stops the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopMode {
    /// The owner has no unfinished work.
    Clean,
    /// Everything is durable, but the owner has unfinished work: the next owner must recover as after a crash.
    WorkPending,
}

/// What `Log::open` found on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogRecovery {
    /// Whether there was no log yet.
    pub is_new: bool,
    /// The last batch in the log; the next staged batch has the seq after it.
    pub last: Seq,
    /// The epoch of the previous owner.
    pub last_epoch: OwnerEpoch,
    pub epoch: OwnerEpoch,
    pub torn_tail: Option<TornTail>,
    /// The previous owner stopped cleanly: no acknowledged batch is missing.
    pub clean_stop: bool,
    pub segments: usize,
}

/// Counters since the log was opened, and its current number of segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogStats {
    pub batches: u64,
    pub watermarks: u64,
    /// Bytes of records, including their headers.
    pub bytes: u64,
    /// Group commits: `batches / writes` is the size of a group.
    pub writes: u64,
    pub syncs: u64,
    /// Segments begun since the log was opened.
    pub segments: u64,
    /// Segments that hold batches.
    pub live: u64,
    pub spares: u64,
}

pub struct Log {
    shared: Arc<Shared>,
    background: [Task<()>; 2],
}

/// Dropping the log without `stop` has the effect of a kill of its process.
impl Drop for Log {
    fn drop(&mut self) {
        for task in &self.background {
            task.stop();
        }
    }
}

impl Log {
    /// Opens the log in `disk`, or creates one. `applied` is the last batch that the index has; the returned
    /// `LogReplay` yields the batches after it, all of them durable.
    ///
    /// # Errors
    /// `Damage`, `Gap`, `NoLog`, `OtherStore` or `UnknownVersion` if the log cannot be trusted, `StaleEpoch` if a newer
    /// owner has written it, `Disk` if the disk failed.
    pub async fn open(
        disk: Disk,
        options: LogOptions,
        applied: Seq,
        platform: Platform,
    ) -> Result<(Log, LogRecovery, LogReplay), LogError> {
        let found = recover::recover(&disk, &options, applied, LogKeeper::Owner).await?;
        let is_new = found.is_none();
        let found = match found {
            Some(found) => found,
            None => {
                let at = LogPosition {
                    last: applied,
                    crc: 0,
                };
                create_first_segment(&disk, &options, at).await?
            }
        };
        let epoch = options.epoch.unwrap_or_else(|| found.epoch.after(1));
        if !epoch.may_follow(found.epoch) {
            return Err(LogError::StaleEpoch {
                given: epoch,
                found: found.epoch,
            });
        }
        let recovery = LogRecovery {
            is_new,
            last: found.last,
            last_epoch: found.epoch,
            epoch,
            torn_tail: found.torn_tail.clone(),
            clean_stop: found.clean_stop,
            segments: found.live.len(),
        };
        let replay = LogReplay::new(options.store, &found.live, applied);
        let shared = Arc::new(Shared::new(disk, platform, options, found, epoch));
        let tasks = &shared.platform.tasks;
        let background = [
            tasks.spawn("log syncer", Arc::clone(&shared).run_syncer()),
            tasks.spawn("log keeper", Arc::clone(&shared).run_segment_manager()),
        ];
        let log = Log { shared, background };
        // The first record of the new owner states its epoch and that all recovered batches are durable, at the copies, too. It must be
        // durable before the owner serves.
        log.shared.sync_copies(log.last()).await?;
        log.shared.write_watermark_and_sync(false).await?;
        Ok((log, recovery, replay))
    }

    /// Gives a batch the next seq; `body` writes its bytes. No I/O. The order of the calls is the order in the log.
    /// After the log has closed, `stage` still counts seqs, but no batch is ever committed.
    ///
    /// # Errors
    /// If the record would be larger than `LogOptions::record_max`; nothing is staged then.
    pub fn stage(&self, shard: u16, body: impl FnOnce(&mut Vec<u8>)) -> Result<Seq, BatchTooLarge> {
        self.shared.stage(shard, body)
    }

    /// Returns when the batch is written, so that it survives the end of this process.
    ///
    /// # Errors
    /// The reason why the log is closed, if it closes before the batch is written.
    pub async fn commit(&self, seq: Seq) -> Result<(), LogError> {
        self.shared.commit(seq).await
    }

    /// Returns when the batch is synced, so that it survives a power loss.
    ///
    /// # Errors
    /// The reason why the log is closed, if it closes before the batch is synced.
    pub async fn make_durable(&self, seq: Seq) -> Result<(), LogError> {
        self.shared.make_durable(seq).await
    }

    /// Returns when a batch after `seq` is durable; it starts no sync itself.
    ///
    /// # Errors
    /// The reason why the log is closed, if it closes before.
    pub async fn wait_durable_after(&self, seq: Seq) -> Result<Seq, LogError> {
        loop {
            let changed = self.shared.durable_changed.notified();
            let durable = self.durable();
            if durable > seq {
                return Ok(durable);
            }
            self.shared.check_open()?;
            changed.await;
        }
    }

    /// The last batch staged.
    pub fn last(&self) -> Seq {
        self.shared.state.lock().last
    }

    pub fn committed(&self) -> Seq {
        self.shared.committed()
    }

    pub fn durable(&self) -> Seq {
        self.shared.durable()
    }

    /// The reason why the log is closed, if it is.
    pub fn closed(&self) -> Option<LogError> {
        self.shared.check_open().err()
    }

    /// The end of the records that are written, here and at all copies that count.
    pub fn written(&self) -> LogPosition {
        self.shared.state.lock().written
    }

    /// The first written records after a position, for a copy that ends there; None if nothing is written after it.
    ///
    /// # Errors
    /// `NoSuchPosition` if the log has no such place any more: the copy needs the index, too.
    pub async fn records_after(
        &self,
        position: LogPosition,
    ) -> Result<Option<RecordGroup>, LogError> {
        self.shared.records_after(position).await
    }

    /// Keeps the records from a position on, which is at or before `seq` and not far from it.
    ///
    /// # Errors
    /// `NoSuchPosition` if the log has removed the records after `seq`; `Disk` if it cannot be read.
    pub async fn keep_from(&self, seq: Seq) -> Result<KeptRecords, LogError> {
        Shared::keep_from(&self.shared, seq).await
    }

    /// Lets the log remove segments that hold only batches up to `seq`: the index has these batches, synced.
    pub fn trim_to(&self, seq: Seq) {
        self.shared.trim_to(seq)
    }

    pub fn headroom(&self) -> Headroom {
        self.shared.headroom()
    }

    pub fn stats(&self) -> LogStats {
        let state = self.shared.state.lock();
        LogStats {
            live: state.live.len() as u64,
            spares: state.spares.len() as u64,
            ..state.stats
        }
    }

    /// Closes the log because a layer above it failed.
    pub fn abort(&self, why: impl Into<String>) {
        self.shared.close(LogError::Aborted(why.into()));
    }

    /// Makes all staged batches durable, writes a final watermark if `how` is `Clean`, and closes the log.
    ///
    /// # Errors
    /// The reason why the log is closed, if it is closed already or the last sync fails.
    pub async fn stop(&self, how: StopMode) -> Result<(), LogError> {
        let last = self.last();
        self.shared.make_durable(last).await?;
        self.shared.stop_segment_manager().await?;
        if how == StopMode::Clean && self.shared.has_space_for_watermark() {
            self.shared.write_watermark_and_sync(true).await?;
        }
        self.shared.close(LogError::Stopped);
        Ok(())
    }
}

/// Creates the first segment of a new log, whose first record continues `at`.
async fn create_first_segment(
    disk: &Disk,
    options: &LogOptions,
    at: LogPosition,
) -> Result<RecoveredLog, LogError> {
    let segment = Segment::create(disk, 1, options.segment_bytes).await?;
    let (last, first) = (at.last, Seq(at.last.0 + 1));
    let header = format::SegmentHeader {
        store: options.store,
        number: 1,
        first,
        previous: at.crc,
        segment_bytes: options.segment_bytes,
        epoch: options.epoch.unwrap_or(OwnerEpoch(0)),
    };
    segment.write_header(&header).await?;
    segment.file.sync_data().await?;
    let live = LiveSegment {
        segment: Arc::new(segment),
        first,
        end: limits::HEADER_BYTES,
    };
    Ok(RecoveredLog {
        live: vec![live],
        spares: Vec::new(),
        last,
        last_crc: at.crc,
        epoch: OwnerEpoch(0),
        torn_tail: None,
        clean_stop: false,
        durable: last,
        tail: vec![at],
    })
}

impl Shared {
    fn new(
        disk: Disk,
        platform: Platform,
        options: LogOptions,
        found: RecoveredLog,
        epoch: OwnerEpoch,
    ) -> Shared {
        let end = found.live.last().expect("a log has a segment").clone();
        let spares: VecDeque<Arc<Segment>> = found.spares.into();
        let newest = spares.back().unwrap_or(&end.segment).number;
        let last = found.last;
        Shared {
            disk,
            platform,
            seed: options.store.seed(),
            options,
            state: Mutex::new(LogState {
                epoch,
                last,
                last_crc: found.last_crc,
                written: LogPosition {
                    last,
                    crc: found.last_crc,
                },
                pending: Vec::new(),
                idle_buffer: Vec::new(),
                writing: false,
                tail: LogTail {
                    segment: end.segment,
                    offset: end.end,
                },
                live: found.live.into(),
                kept: Vec::new(),
                spares,
                retired: VecDeque::new(),
                next_number: newest + 1,
                manager_busy: false,
                stopping: false,
                disk_full: false,
                unsynced: Vec::new(),
                syncing: false,
                dirty_since: None,
                sync_covers: last,
                durable_recorded: Seq(0),
                closed: None,
                stats: LogStats::default(),
            }),
            committed: AtomicU64::new(last.0),
            durable: AtomicU64::new(last.0),
            committed_changed: Notify::new(),
            durable_changed: Notify::new(),
            wake_syncer: Notify::new(),
            sync_now: Notify::new(),
            wake_segment_manager: Notify::new(),
            spares_changed: Notify::new(),
        }
    }
}
