//! A copy of a log that another host's owner writes: it appends the owner's records as they are, and adds none.

use super::copies::RecordGroup;
use super::error::{AppendError, LogError};
use super::position::LogPosition;
use super::recover::{self, LogKeeper, RecoveredLog};
use super::replay::{LogReplay, LoggedBatch};
use super::state::Shared;
use super::{LogOptions, create_first_segment};
use gupfs_platform::{Disk, Platform, Task};
use gupfs_proto::{OwnerEpoch, Seq};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// What `LogCopy::open` found on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopiedLog {
    pub end: LogPosition,
    /// The newest owner of whom the copy has a record.
    pub epoch: OwnerEpoch,
    /// The highest batch that a record states to be durable, at all copies.
    pub durable: Seq,
}

/// The copy of a log. Dropping it without `stop` has the effect of a kill of its process.
pub struct LogCopy {
    shared: Arc<Shared>,
    manager: Task<()>,
    decided: Mutex<DecidedTail>,
    /// Groups of senders before this owner are refused.
    lowest_owner: AtomicU64,
}

/// How far the owner has said that batches are durable everywhere, and the positions from there on.
struct DecidedTail {
    durable: Seq,
    positions: VecDeque<LogPosition>,
}

impl Drop for LogCopy {
    fn drop(&mut self) {
        self.manager.stop();
    }
}

impl LogCopy {
    /// Opens the copy in `disk`, or begins one at `begin_at`. `applied` is the last batch that the copy's index has; the returned `LogReplay`
    /// yields the batches after it, none of which need be durable elsewhere. With `LogOptions::end_at` the records after that position are
    /// dropped.
    ///
    /// # Errors
    /// As of `Log::open`; `NoSuchPosition` if the copy has no record that ends at `LogOptions::end_at`.
    pub async fn open(
        disk: Disk,
        options: LogOptions,
        applied: Seq,
        begin_at: LogPosition,
        platform: Platform,
    ) -> Result<(LogCopy, CopiedLog, LogReplay), LogError> {
        let found = match recover::recover(&disk, &options, applied, LogKeeper::Copy).await? {
            Some(found) => found,
            None => create_first_segment(&disk, &options, begin_at).await?,
        };
        let copied = CopiedLog {
            end: LogPosition {
                last: found.last,
                crc: found.last_crc,
            },
            epoch: found.epoch,
            durable: found.durable,
        };
        let replay = LogReplay::new(options.store, &found.live, applied);
        let decided = Mutex::new(DecidedTail::found(&found));
        let epoch = found.epoch;
        let shared = Arc::new(Shared::new(disk, platform, options, found, epoch));
        let tasks = &shared.platform.tasks;
        let manager = tasks.spawn("log keeper", Arc::clone(&shared).run_segment_manager());
        let copy = LogCopy {
            shared,
            manager,
            decided,
            lowest_owner: AtomicU64::new(epoch.0),
        };
        Ok((copy, copied, replay))
    }

    /// Takes the records that the copy does not have yet; no I/O. Returns their batches. `commit` writes them.
    ///
    /// # Errors
    /// If they are not the owner's next records, without an effect; `Log` if the copy is closed.
    pub fn stage(&self, group: &RecordGroup) -> Result<Vec<LoggedBatch>, AppendError> {
        let mut state = self.shared.state.lock();
        if let Some(why) = &state.closed {
            return Err(why.clone().into());
        }
        let follows = |known| (group.owner.may_follow(OwnerEpoch(known))).then_some(group.owner.0);
        let obeyed = (self.lowest_owner).fetch_update(Relaxed, Relaxed, follows);
        obeyed.map_err(|known| AppendError::FormerOwner {
            given: group.owner,
            known: OwnerEpoch(known),
        })?;
        let has = state.end();
        let mut at = group.after;
        let mut is_new = at == has;
        let (mut epoch, mut durable) = (state.epoch, Seq(0));
        let (mut batches, mut positions, mut from, mut offset) = (Vec::new(), Vec::new(), 0, 0);
        for record in group.records(self.shared.seed) {
            at = record.end;
            offset += record.bytes.len();
            if !is_new {
                is_new = at == has;
                from = offset;
                continue;
            }
            // The owners of a log follow each other.
            let is_owners = record.header.epoch.group() == group.owner.group();
            if !is_owners || record.header.epoch < epoch || record.header.epoch > group.owner {
                return Err(AppendError::Malformed { after: has });
            }
            if record.bytes.len() > self.shared.options.record_max() {
                return Err(AppendError::Malformed { after: has });
            }
            epoch = record.header.epoch;
            // Nothing is durable that the log does not have yet.
            durable = durable.max(record.header.durable.min(at.last));
            positions.push(at);
            batches.extend(record.batch(&group.bytes, offset));
        }
        if at != group.upto || offset != group.bytes.len() {
            return Err(AppendError::Malformed { after: at });
        }
        if !is_new {
            return Err(AppendError::NotContinuous { has });
        }
        state.pending.extend_from_slice(&group.bytes[from..]);
        (state.last, state.last_crc, state.epoch) = (at.last, at.crc, epoch);
        state.stats.batches += batches.len() as u64;
        state.stats.bytes += (offset - from) as u64;
        self.decided.lock().add(positions, durable);
        Ok(batches)
    }

    /// Returns when all staged records survive the end of this process.
    ///
    /// # Errors
    /// The reason why the copy is closed.
    pub async fn commit(&self) -> Result<(), LogError> {
        self.shared.commit_all().await
    }

    /// Returns when all records survive a power loss of this host.
    ///
    /// # Errors
    /// The reason why the copy is closed.
    pub async fn make_durable(&self) -> Result<(), LogError> {
        self.shared.sync_all().await
    }

    pub fn end(&self) -> LogPosition {
        self.shared.state.lock().end()
    }

    pub fn epoch(&self) -> OwnerEpoch {
        self.shared.state.lock().epoch
    }

    /// The position after the last batch that the owner has said to be durable everywhere: all later owners have the records up to there.
    pub fn decided(&self) -> LogPosition {
        let decided = self.decided.lock();
        *decided
            .positions
            .front()
            .expect("the durable batch's position stays")
    }

    /// Whether the copy has the records up to this position, as far as it is not before the last batch that is durable everywhere.
    pub fn has(&self, position: LogPosition) -> bool {
        self.decided.lock().positions.contains(&position)
    }

    /// As `Log::records_after`.
    ///
    /// # Errors
    /// As `Log::records_after`.
    pub async fn records_after(
        &self,
        position: LogPosition,
    ) -> Result<Option<RecordGroup>, LogError> {
        let group = self.shared.records_after(position).await?;
        // On behalf of the owner that this copy obeys, or is about to be.
        let owner = OwnerEpoch(self.lowest_owner.load(Relaxed));
        Ok(group.map(|group| RecordGroup { owner, ..group }))
    }

    /// From now on the copy refuses what owners before this one send.
    pub fn refuse_before(&self, owner: OwnerEpoch) {
        self.lowest_owner.fetch_max(owner.0, Relaxed);
    }

    /// The highest batch that the owner has said to be durable everywhere.
    pub fn said_durable(&self) -> Seq {
        self.decided.lock().durable
    }

    /// The last batch that is durable here.
    pub fn durable(&self) -> Seq {
        self.shared.durable()
    }

    /// The highest batch that the owner has said to be durable everywhere, and that is durable here.
    pub fn durable_everywhere(&self) -> Seq {
        self.decided.lock().durable.min(self.shared.durable())
    }

    /// As `Log::trim_to`.
    pub fn trim_to(&self, seq: Seq) {
        self.shared.trim_to(seq)
    }

    /// The reason why the copy is closed, if it is.
    pub fn closed(&self) -> Option<LogError> {
        self.shared.check_open().err()
    }

    /// Closes the copy because a layer above it failed.
    pub fn abort(&self, why: impl Into<String>) {
        self.shared.close(LogError::Aborted(why.into()));
    }

    /// Makes all records durable here, and closes the copy. No record says that it was stopped: the owner's records are all there is.
    ///
    /// # Errors
    /// The reason why the copy is closed, if it is closed already or the last sync fails.
    pub async fn stop(&self) -> Result<(), LogError> {
        self.make_durable().await?;
        self.shared.stop_segment_manager().await?;
        self.shared.close(LogError::Stopped);
        Ok(())
    }
}

impl DecidedTail {
    fn found(found: &RecoveredLog) -> DecidedTail {
        DecidedTail {
            durable: found.durable,
            positions: found.tail.iter().copied().collect(),
        }
    }

    fn add(&mut self, positions: Vec<LogPosition>, durable: Seq) {
        self.durable = self.durable.max(durable);
        self.positions.extend(positions);
        // The position of the durable batch itself stays, and those of the watermarks after it.
        while self
            .positions
            .front()
            .is_some_and(|first| first.last < self.durable)
        {
            self.positions.pop_front();
        }
    }
}
