//! # log: the order of a store's batches, kept
//!
//! Owns   segments and records (`docs/formats/log.md`), group commit, syncing, and what a crash left of them.
//! Never  knows what a batch means.
//! Enter  at `Log::open`; a batch's way is `stage` → `commit` → `make_durable`.
//!
//! A batch gets its place when it is staged (no I/O), survives the process when it is committed, and a power cut when
//! it is durable; all three in the order of their seqs. The first failed write or sync ends the log for good.

mod commit;
mod error;
mod format;
mod keeper;
pub mod limits;
mod recover;
mod replay;
mod segment;
mod state;
mod survey;
mod sync;

pub use error::{BatchTooLarge, LogError};
pub use format::StoreId;
pub use recover::Torn;
pub use replay::{Record, Replay};
pub use survey::{Survey, Surveyed};

use gupfs_platform::{Disk, Platform, Task};
use gupfs_proto::{OwnerEpoch, Seq};
use parking_lot::Mutex;
use recover::{Found, Live};
use segment::Segment;
use state::{Shared, State, Tail};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::sync::Notify;

#[derive(Clone, Debug)]
pub struct LogOptions {
    pub store: StoreId,
    /// Who writes from now on; none takes the one after the last found in the log.
    pub epoch: Option<OwnerEpoch>,
    pub segment_bytes: u64,
    pub sync_every: Duration,
    pub sync_records: u64,
    /// There is no log yet, and an index that is not empty: the log begins behind what the index knows. For a store that was made
    /// from what could be read of another.
    pub begin_behind_index: bool,
}

impl LogOptions {
    pub fn new(store: StoreId) -> LogOptions {
        LogOptions {
            store,
            epoch: None,
            segment_bytes: limits::SEGMENT_BYTES,
            sync_every: limits::SYNC_EVERY,
            sync_records: limits::SYNC_RECORDS,
            begin_behind_index: false,
        }
    }

    /// Largest record with these segments.
    pub fn record_max(&self) -> usize {
        limits::RECORD_MAX.min((self.segment_bytes - limits::HEADER_BYTES) as usize)
    }
}

/// Whether the disk has space for the log to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Headroom {
    Plenty,
    /// The next segment could not be made: these bytes are left, for what makes space. Refuse growth.
    Low(u64),
    /// Not even a removal fits any more.
    None,
}

/// How an owner ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Everything that it had to do is done.
    InOrder,
    /// Everything is durable, but the next owner has to do what it does after a crash.
    WorkLeft,
}

/// What opening found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogRecovery {
    /// Whether there was no log yet.
    pub fresh: bool,
    /// The last batch found; what follows is numbered from here.
    pub last: Seq,
    /// The last owner before this one.
    pub last_epoch: OwnerEpoch,
    pub epoch: OwnerEpoch,
    pub torn: Option<Torn>,
    /// The last owner stopped in order: nothing that was answered is missing.
    pub stopped: bool,
    pub segments: usize,
}

/// Counts since the log was opened, and what it holds now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogStats {
    pub batches: u64,
    pub marks: u64,
    /// Of records, with their headers.
    pub bytes: u64,
    /// Group commits: `batches / writes` is the size of a group.
    pub writes: u64,
    pub syncs: u64,
    /// Segments begun.
    pub segments: u64,
    /// Segments that hold batches now.
    pub live: u64,
    pub spares: u64,
}

pub struct Log {
    shared: Arc<Shared>,
    background: [Task<()>; 2],
}

/// Dropped without `stop`, the log just ends, as if its process had been killed.
impl Drop for Log {
    fn drop(&mut self) {
        for task in &self.background {
            task.stop();
        }
    }
}

impl Log {
    /// Opens the log in `disk`, or makes one. `applied` is the last batch the index knows; `Replay` gives those behind
    /// it, all of them durable.
    pub async fn open(
        disk: Disk,
        options: LogOptions,
        applied: Seq,
        platform: Platform,
    ) -> Result<(Log, LogRecovery, Replay), LogError> {
        let found = recover::recover(&disk, &options, applied).await?;
        let fresh = found.is_none();
        let found = match found {
            Some(found) => found,
            None => begin(&disk, &options, applied).await?,
        };
        let epoch = options.epoch.unwrap_or(OwnerEpoch(found.epoch.0 + 1));
        if epoch < found.epoch {
            return Err(LogError::Deposed {
                given: epoch,
                found: found.epoch,
            });
        }
        let recovery = LogRecovery {
            fresh,
            last: found.last,
            last_epoch: found.epoch,
            epoch,
            torn: found.torn.clone(),
            stopped: found.stopped,
            segments: found.live.len(),
        };
        let replay = Replay::new(options.store, &found.live, applied);
        let shared = Arc::new(Shared::new(disk, platform, options, found, epoch));
        let tasks = &shared.platform.tasks;
        let background = [
            tasks.spawn("log syncer", Arc::clone(&shared).keep_synced()),
            tasks.spawn("log keeper", Arc::clone(&shared).keep_segments()),
        ];
        let log = Log { shared, background };
        // The new owner's first word, durable before it serves: its epoch, and that all it found is durable.
        log.shared.mark_and_sync(false).await?;
        Ok((log, recovery, replay))
    }

    /// Gives a batch the next seq; `body` writes its bytes. No I/O; the order of calls is the order of the log. After
    /// the log has closed, seqs go on and nothing is ever committed.
    ///
    /// # Errors
    /// When the record would be larger than `LogOptions::record_max`; nothing was staged then.
    pub fn stage(&self, shard: u16, body: impl FnOnce(&mut Vec<u8>)) -> Result<Seq, BatchTooLarge> {
        self.shared.stage(shard, body)
    }

    /// Returns when the batch is written, so that it survives this process.
    pub async fn commit(&self, seq: Seq) -> Result<(), LogError> {
        self.shared.commit(seq).await
    }

    /// Returns when the batch is synced, so that it survives a power cut.
    pub async fn make_durable(&self, seq: Seq) -> Result<(), LogError> {
        self.shared.make_durable(seq).await
    }

    /// Returns when something behind `seq` is durable, without asking for it.
    pub async fn durable_beyond(&self, seq: Seq) -> Result<Seq, LogError> {
        loop {
            let moved = self.shared.durable_moved.notified();
            let durable = self.durable();
            if durable > seq {
                return Ok(durable);
            }
            self.shared.check_open()?;
            moved.await;
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

    /// Why nothing is committed any more, if so.
    pub fn closed(&self) -> Option<LogError> {
        self.shared.check_open().err()
    }

    /// Segments that hold only batches up to `seq` may go: the index has them, synced.
    pub fn drop_before(&self, seq: Seq) {
        self.shared.drop_before(seq)
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

    /// Ends the log because something above it failed.
    pub fn abandon(&self, why: impl Into<String>) {
        self.shared.close(LogError::Abandoned(why.into()));
    }

    /// Makes everything staged durable and says so in the log, then closes it.
    pub async fn stop(&self, how: Stop) -> Result<(), LogError> {
        let last = self.last();
        self.shared.make_durable(last).await?;
        self.shared.stop_keeping().await?;
        if how == Stop::InOrder && self.shared.has_room_for_mark() {
            self.shared.mark_and_sync(true).await?;
        }
        self.shared.close(LogError::Stopped);
        Ok(())
    }
}

/// The first segment of a new log, whose first batch is the one behind `last`.
async fn begin(disk: &Disk, options: &LogOptions, last: Seq) -> Result<Found, LogError> {
    let segment = Segment::make(disk, 1, options.segment_bytes).await?;
    let first = Seq(last.0 + 1);
    let header = format::SegmentHeader {
        store: options.store,
        number: 1,
        first,
        previous: 0,
        segment_bytes: options.segment_bytes,
    };
    segment.write_header(&header).await?;
    segment.file.sync_data().await?;
    let live = Live {
        segment: Arc::new(segment),
        first,
        end: limits::HEADER_BYTES,
    };
    Ok(Found {
        live: vec![live],
        spares: Vec::new(),
        last,
        chain: 0,
        epoch: OwnerEpoch(0),
        torn: None,
        stopped: false,
    })
}

impl Shared {
    fn new(
        disk: Disk,
        platform: Platform,
        options: LogOptions,
        found: Found,
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
            state: Mutex::new(State {
                epoch,
                last,
                chain: found.chain,
                pending: Vec::new(),
                idle_buffer: Vec::new(),
                writing: false,
                tail: Tail {
                    segment: end.segment,
                    offset: end.end,
                },
                live: found.live.into(),
                spares,
                retired: VecDeque::new(),
                next_number: newest + 1,
                keeping: false,
                stopping: false,
                full: false,
                unsynced: Vec::new(),
                syncing: false,
                dirty_since: None,
                sync_covers: last,
                durable_said: Seq(0),
                closed: None,
                stats: LogStats::default(),
            }),
            committed: AtomicU64::new(last.0),
            durable: AtomicU64::new(last.0),
            committed_moved: Notify::new(),
            durable_moved: Notify::new(),
            wake_syncer: Notify::new(),
            hurry_syncer: Notify::new(),
            wake_keeper: Notify::new(),
            spares_moved: Notify::new(),
        }
    }
}
