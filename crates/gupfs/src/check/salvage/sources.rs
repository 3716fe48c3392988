//! Reads the damaged index and log into a new index.
//!
//! If the index can be read completely, the new one gets it and the later batches of the log. Otherwise, if the log reaches back to the
//! first batch, the new one gets the log up to its damage; else the readable part of both. Every record in it is one that the store
//! wrote.

use super::dirs::SalvageDirs;
use super::{SalvageLoss, Salvaged, store_id};
use crate::check::progress::Progress;
use crate::exit::{CliError, CliResult, OrCliError};
use crate::store_dir::{Marker, StoreDir};
use crate::stores::DescriptorBudget;
use bytes::Bytes;
use gupfs_namespace::{Inode, KeyRange, Record, RecordKey, RecordKind};
use gupfs_platform::{Disk, Platform};
use gupfs_proto::{OwnerEpoch, Seq, Timestamp, VirtualShard};
use gupfs_store::index::{Index, IndexError, IndexUpdates, KeyBounds};
use gupfs_store::kv::{KvError, copy_records, replay_survey};
use gupfs_store::log::{LogError, LogSurvey, LogSurveyFindings, StoreId};
use std::ops::Bound;

/// The damaged part of a log may contain so many starts of the server; the new owner epoch is above theirs.
const OWNER_EPOCHS_SKIPPED: u64 = 1 << 16;

/// Records that are read at a time.
const STEP: usize = 1_024;

/// The result of reading the damaged store.
pub struct SalvagedIndex {
    /// The new index, with all records that could be read.
    pub index: Index,
    pub next_epoch: OwnerEpoch,
    /// The ctime of the newest inode.
    pub newest: Option<Timestamp>,
}

/// # Errors
/// If the new index cannot be written, the log belongs to another store, or the disk is full.
pub async fn read(
    store_dir: &StoreDir,
    marker: &Marker,
    dirs: &SalvageDirs,
    budget: DescriptorBudget,
    platform: &Platform,
    progress: &mut Progress,
    done: &mut Salvaged,
) -> CliResult<SalvagedIndex> {
    let failed = || "cannot create the new index".to_string();
    let store = store_id(marker);
    let index = Index::open_fjall(&dirs.index(), budget.metadata).or_cli_error(failed)?;
    index.claim(store).or_cli_error(failed)?;
    let reader = SourceReader {
        store,
        log: Disk::real(store_dir.mds_log()).ok(),
        index,
        shards: marker.virtual_shards,
    };
    progress.part("records of the index".into());
    let old = open_damaged(store_dir, dirs, budget, store, done)?;
    let surveyed = reader.read_both(old.as_ref(), progress, done).await?;
    drop(old);
    reader.remove_sessions().or_cli_error(failed)?;
    let applied = reader.index.applied().max(surveyed.highest);
    reader
        .index
        .apply(applied, &IndexUpdates::new())
        .or_cli_error(failed)?;
    reader.index.persist().or_cli_error(failed)?;
    let newest = reader.newest_ctime().or_cli_error(failed)?;
    // Without an owner epoch in the log, the time in seconds is above all: a server starts less than once a second.
    let known = match surveyed.epoch {
        OwnerEpoch(0) => platform.clock.now().secs.max(0) as u64,
        OwnerEpoch(known) => known,
    };
    Ok(SalvagedIndex {
        index: reader.index,
        next_epoch: OwnerEpoch(known + OWNER_EPOCHS_SKIPPED),
        newest,
    })
}

/// Opens a copy of the damaged index; None if it cannot be opened, which is recorded as a loss.
fn open_damaged(
    store_dir: &StoreDir,
    dirs: &SalvageDirs,
    budget: DescriptorBudget,
    store: StoreId,
    done: &mut Salvaged,
) -> CliResult<Option<Index>> {
    let dir = store_dir.mds_index();
    let lost =
        |why: String| SalvageLoss::new("IndexUnreadable", format!("cannot read the index: {why}"));
    if !dir.join("version").exists() {
        done.lost
            .push(lost(format!("'{}' contains no index", dir.display())));
        return Ok(None);
    }
    let copy = match dirs.copy_index(&dir) {
        Ok(copy) => copy,
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
            let what = format!("cannot copy '{}'", dir.display());
            return Err(CliError::new(what).because(&error).todo(
                "a salvage needs free space of twice the size of the index in the metadata directory",
            ));
        }
        Err(error) => {
            done.lost.push(lost(error.to_string()));
            return Ok(None);
        }
    };
    // A scan does not read every table; a lookup of a name may.
    let tables = Index::verify_tables(&copy);
    let opened = Index::open_fjall(&copy, budget.metadata)
        .and_then(|index| index.claim(store).map(|()| index));
    match opened {
        Ok(index) => {
            if let Err(error) = tables {
                tracing::warn!(%error, "the index has damaged tables; building it again from its records");
                done.repaired += 1;
            }
            Ok(Some(index))
        }
        Err(error @ (IndexError::UnknownVersion { .. } | IndexError::OtherStore)) => {
            Err(CliError::new("cannot salvage the index").because(&error))
        }
        Err(error) => {
            done.lost.push(lost(error.to_string()));
            Ok(None)
        }
    }
}

struct SourceReader {
    store: StoreId,
    log: Option<Disk>,
    index: Index,
    shards: u16,
}

impl SourceReader {
    async fn read_both(
        &self,
        old: Option<&Index>,
        progress: &mut Progress,
        done: &mut Salvaged,
    ) -> CliResult<LogSurveyFindings> {
        let applied = old.map_or(Seq(0), Index::applied);
        let first_batch = self.survey_first_batch().await?;
        if let Some(old) = old {
            let failure = self.copy(old, progress)?;
            match failure {
                None => return self.replay(Some(applied), progress, done).await,
                Some(error) => done.lost.push(SalvageLoss::new(
                    "IndexDamaged",
                    format!("cannot read some records of the index: {error}"),
                )),
            }
        }
        if first_batch.first == Some(Seq(1)) {
            // All batches of the log; then, if the index is newer than the last of them, the readable records of the index.
            let surveyed = self.replay(Some(Seq(0)), progress, done).await?;
            if let Some(old) = old
                && applied > surveyed.proven
            {
                self.copy(old, progress)?;
            }
            return Ok(surveyed);
        }
        match old {
            Some(_) => self.replay(Some(applied), progress, done).await,
            None => self.replay(None, progress, done).await,
        }
    }

    fn copy(&self, old: &Index, progress: &mut Progress) -> CliResult<Option<IndexError>> {
        let ranges = ranges(self.shards);
        let each = |_: &Bytes, _: &Bytes| progress.step();
        copy_records(old, &self.index, old.applied(), &ranges, each)
            .or_cli_error(|| "cannot fill the new index".into())
    }

    /// Finds out how far back the log reaches.
    async fn survey_first_batch(&self) -> CliResult<LogSurveyFindings> {
        let Some(disk) = &self.log else {
            return Ok(LogSurveyFindings::default());
        };
        let mut survey = LogSurvey::begin_at_first(disk, self.store)
            .await
            .map_err(unreadable)?;
        survey.next().await.map_err(unreadable)?;
        Ok(survey.findings().clone())
    }

    /// Applies the batches of the log after `after`, or all that it has.
    async fn replay(
        &self,
        after: Option<Seq>,
        progress: &mut Progress,
        done: &mut Salvaged,
    ) -> CliResult<LogSurveyFindings> {
        progress.part("batches of the log".into());
        let Some(disk) = &self.log else {
            done.lost
                .push(SalvageLoss::new("LogMissing", "the log is missing"));
            return Ok(LogSurveyFindings::default());
        };
        let begun = match after {
            Some(after) => LogSurvey::begin(disk, self.store, after).await,
            None => LogSurvey::begin_at_first(disk, self.store).await,
        };
        let mut survey = begun.map_err(unreadable)?;
        match replay_survey(&self.index, &mut survey).await {
            Ok(_) => {}
            Err(KvError::Log(error)) => return Err(unreadable(error)),
            Err(error) => return Err(CliError::new("cannot fill the new index").because(&error)),
        }
        let found = survey.findings().clone();
        report_log_losses(after, &found, done);
        Ok(found)
    }

    /// Removes the sessions: their clients learn that they have ended, and the next start recovers the files that they wrote.
    fn remove_sessions(&self) -> Result<(), IndexError> {
        for kind in [RecordKind::Session, RecordKind::Reply] {
            self.each_of(kind, |records| {
                let removals: IndexUpdates =
                    records.iter().map(|(key, _)| (key.clone(), None)).collect();
                self.index.apply(self.index.applied(), &removals)
            })?;
        }
        Ok(())
    }

    /// The ctime of the newest inode.
    fn newest_ctime(&self) -> Result<Option<Timestamp>, IndexError> {
        let mut newest = None;
        self.each_of(RecordKind::Inode, |records| {
            let inodes = records
                .iter()
                .filter_map(|(_, value)| Inode::decode(value).ok());
            newest = newest.max(inodes.map(|inode| inode.ctime).max());
            Ok(())
        })?;
        Ok(newest)
    }

    fn each_of(
        &self,
        kind: RecordKind,
        mut take: impl FnMut(&[(Bytes, Bytes)]) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        for shard in (0..self.shards).map(VirtualShard) {
            let mut range = range(KeyRange::of_kind(shard, kind));
            loop {
                let records = self.index.scan(range.clone(), STEP)?;
                take(&records)?;
                match records.last() {
                    Some((last, _)) if records.len() == STEP => {
                        range.0 = Bound::Excluded(last.clone());
                    }
                    _ => break,
                }
            }
        }
        Ok(())
    }
}

fn report_log_losses(after: Option<Seq>, found: &LogSurveyFindings, done: &mut Salvaged) {
    if after.is_none()
        && let Some(first) = found.first
    {
        done.lost.push(SalvageLoss::new(
            "LogBegins",
            format!(
                "the log has no batch before {first}; older files are rebuilt from their objects"
            ),
        ));
    }
    for (segment, offset) in &found.damage {
        done.lost.push(SalvageLoss::new(
            "LogDamaged",
            format!("the log is damaged in segment {segment} at offset {offset}"),
        ));
    }
    if let Some((from, to)) = found.lost() {
        done.lost.push(SalvageLoss::new(
            "BatchesLost",
            format!(
                "batches {from} to {to} of the log are lost ({} of them are readable, but depend on lost ones)",
                found.unproven
            ),
        ));
    }
}

/// The key ranges of each kind of record in each shard.
fn ranges(shards: u16) -> Vec<KeyBounds> {
    (0..shards)
        .map(VirtualShard)
        .flat_map(|shard| RecordKind::ALL.map(|kind| range(KeyRange::of_kind(shard, kind))))
        .collect()
}

fn range(range: KeyRange) -> KeyBounds {
    let bytes = |key: &RecordKey| Bytes::copy_from_slice(key.as_bytes());
    (
        Bound::Included(bytes(&range.from)),
        Bound::Excluded(bytes(&range.to)),
    )
}

fn unreadable(error: LogError) -> CliError {
    CliError::new("cannot read the log").because(&error)
}
