//! What can be read: the index, the log, and which of both is believed.
//!
//! A whole index is believed, with the log's batches behind it. Where the index cannot be read whole, a log that reaches back to
//! the first batch is everything, up to its damage; else what can be read of both. Nothing is made up: every record was written by the
//! store once.

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
use gupfs_store::index::{Index, IndexChanges, IndexError, KeyBounds};
use gupfs_store::kv::{KvError, copy_records, replay_survey};
use gupfs_store::log::{LogError, LogSurvey, LogSurveyFindings, StoreId};
use std::ops::Bound;

/// Starts that the damaged part of a log may hide: the new owner's epoch lies above all of theirs.
const STARTS_HIDDEN: u64 = 1 << 16;

/// Records looked at in one step.
const STEP: usize = 1_024;

pub struct SalvagedIndex {
    /// The new index, with everything that was read.
    pub index: Index,
    pub next_epoch: OwnerEpoch,
    /// The newest change of an inode that is kept.
    pub newest: Option<Timestamp>,
}

pub async fn read(
    store_dir: &StoreDir,
    marker: &Marker,
    place: &SalvageDirs,
    share: DescriptorBudget,
    platform: &Platform,
    progress: &mut Progress,
    done: &mut Salvaged,
) -> CliResult<SalvagedIndex> {
    let failed = || "cannot make the new index".to_string();
    let store = store_id(marker);
    let index = Index::open_fjall(&place.index(), share.metadata).or_cli_error(failed)?;
    index.claim(store).or_cli_error(failed)?;
    let reading = SourceReader {
        store,
        log: Disk::real(store_dir.mds_log()).ok(),
        index,
        shards: marker.virtual_shards,
    };
    progress.part("records of the index".into());
    let old = open_old(store_dir, place, share, store, done)?;
    let surveyed = reading.read_both(old.as_ref(), progress, done).await?;
    drop(old);
    reading.forget_sessions().or_cli_error(failed)?;
    let applied = reading.index.applied().max(surveyed.highest);
    reading
        .index
        .apply(applied, &IndexChanges::new())
        .or_cli_error(failed)?;
    reading.index.persist().or_cli_error(failed)?;
    let newest = reading.newest().or_cli_error(failed)?;
    // Where the log says nothing of owners, time does: there is less than a start a second.
    let known = match surveyed.epoch {
        OwnerEpoch(0) => platform.clock.now().secs.max(0) as u64,
        OwnerEpoch(known) => known,
    };
    Ok(SalvagedIndex {
        index: reading.index,
        next_epoch: OwnerEpoch(known + STARTS_HIDDEN),
        newest,
    })
}

/// A copy of the damaged index, opened. None if that cannot be; why is a loss.
fn open_old(
    store_dir: &StoreDir,
    place: &SalvageDirs,
    share: DescriptorBudget,
    store: StoreId,
    done: &mut Salvaged,
) -> CliResult<Option<Index>> {
    let dir = store_dir.mds_index();
    let lost = |why: String| {
        SalvageLoss::new(
            "IndexUnreadable",
            format!("the index cannot be read: {why}"),
        )
    };
    if !dir.join("version").exists() {
        done.lost
            .push(lost(format!("'{}' holds none", dir.display())));
        return Ok(None);
    }
    let copy = match place.copy_of_index(&dir) {
        Ok(copy) => copy,
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
            let what = format!("cannot copy '{}'", dir.display());
            return Err(CliError::new(what).because(&error).todo(
                "a salvage needs twice the index's space in the metadata's directory: free some",
            ));
        }
        Err(error) => {
            done.lost.push(lost(error.to_string()));
            return Ok(None);
        }
    };
    // What no scan meets, a lookup of a name does.
    let tables = Index::verify_tables(&copy);
    let opened = Index::open_fjall(&copy, share.metadata)
        .and_then(|index| index.claim(store).map(|()| index));
    match opened {
        Ok(index) => {
            if let Err(error) = tables {
                tracing::warn!(%error, "the index is made again from its records");
                done.mended += 1;
            }
            Ok(Some(index))
        }
        Err(error @ (IndexError::UnknownVersion { .. } | IndexError::OtherStore)) => {
            Err(CliError::new("the index is not this store's to salvage").because(&error))
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
        let begins = self.look_at_log().await?;
        if let Some(old) = old {
            let failure = self.copy(old, progress)?;
            match failure {
                None => return self.replay(Some(applied), progress, done).await,
                Some(error) => done.lost.push(SalvageLoss::new(
                    "IndexDamaged",
                    format!("some records of the index cannot be read: {error}"),
                )),
            }
        }
        if begins.first == Some(Seq(1)) {
            // Its batches from the first one on; then, where it ends before the index does, what the index has above them.
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

    /// How far back the log reaches.
    async fn look_at_log(&self) -> CliResult<LogSurveyFindings> {
        let Some(disk) = &self.log else {
            return Ok(LogSurveyFindings::default());
        };
        let mut survey = LogSurvey::begin_at_first(disk, self.store)
            .await
            .map_err(unreadable)?;
        survey.next().await.map_err(unreadable)?;
        Ok(survey.findings().clone())
    }

    /// The log's batches behind `after`, or from whatever it has first.
    async fn replay(
        &self,
        after: Option<Seq>,
        progress: &mut Progress,
        done: &mut Salvaged,
    ) -> CliResult<LogSurveyFindings> {
        progress.part("batches of the log".into());
        let Some(disk) = &self.log else {
            done.lost
                .push(SalvageLoss::new("LogMissing", "there is no log"));
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

    /// Clients learn that their sessions have ended; the next start recovers the files that these sessions wrote.
    fn forget_sessions(&self) -> Result<(), IndexError> {
        for kind in [RecordKind::Session, RecordKind::Reply] {
            self.each_of(kind, |records| {
                let gone: IndexChanges =
                    records.iter().map(|(key, _)| (key.clone(), None)).collect();
                self.index.apply(self.index.applied(), &gone)
            })?;
        }
        Ok(())
    }

    /// When the newest change of an inode was made that is kept.
    fn newest(&self) -> Result<Option<Timestamp>, IndexError> {
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
            format!("the log has no batch before {first}: what is older is taken from objects"),
        ));
    }
    for (segment, offset) in &found.damage {
        done.lost.push(SalvageLoss::new(
            "LogDamaged",
            format!(
                "bytes of the log are not what was written: segment {segment}, offset {offset}"
            ),
        ));
    }
    if let Some((from, to)) = found.lost() {
        done.lost.push(SalvageLoss::new(
            "BatchesLost",
            format!(
                "batches {from} to {to} of the log are lost ({} of them can be read, and rest on lost ones)",
                found.unproven
            ),
        ));
    }
}

/// Each kind of record in each shard.
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
