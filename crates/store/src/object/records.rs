//! The target's records: a log and its index in the target's directory.

use super::error::{OpenError, OpenErrorKind, error_chain};
use super::limits::{RECORDS_CACHED, RECORDS_SYNCED_EVERY};
use super::objects::TargetOptions;
use super::record::{
    ObjectRecord, RegionRecord, UnreadableRecord, object_key, region_key, region_of_key,
};
use super::superblock::Superblock;
use crate::index::Index;
use crate::kv::{self, Kv, KvError, KvOptions};
use crate::log::{Headroom, LogError, LogOptions, StopMode, StoreId};
use gupfs_platform::{Disk, DiskError, Platform};
use gupfs_proto::{ObjectId, Seq};
use std::ops::Range;

/// Below the target's directory. The log is in `log` below it, the index in `index`.
const DIR: &str = "records";
const LOG: &str = "log";
const INDEX: &str = "index";

/// All records of a target have the same shard.
const SHARD: u16 = 0;

pub(super) struct Records(Kv);

/// Changes that survive a crash together or not at all.
#[derive(Default)]
pub(super) struct RecordBatch(kv::KvBatch);

impl RecordBatch {
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.0.push((key.into(), Some(value.into())));
    }

    pub fn delete(&mut self, key: Vec<u8>) {
        self.0.push((key.into(), None));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum RecordsError {
    #[error("the log has no space for another record")]
    NoSpace,
    #[error(transparent)]
    Store(#[from] KvError),
    #[error(transparent)]
    UnreadableRecord(#[from] UnreadableRecord),
}

impl RecordsError {
    /// Whether the disk has failed, or may have: errors of the index do not say whether the disk is the cause.
    pub fn may_be_disk_error(&self) -> bool {
        matches!(
            self,
            RecordsError::Store(
                KvError::Index(_) | KvError::Log(LogError::Disk(_) | LogError::Aborted(_))
            )
        )
    }
}

impl Records {
    /// Creates the directories that `open` needs; the caller syncs the target's directory.
    pub async fn init(disk: &Disk) -> Result<(), DiskError> {
        disk.create_dir(DIR).await?;
        disk.create_dir(&format!("{DIR}/{LOG}")).await?;
        disk.sync_dir(DIR).await
    }

    /// Opens the index on a real disk.
    pub async fn open_index(
        disk: &Disk,
        platform: &Platform,
        files: usize,
    ) -> Result<Index, OpenError> {
        let Some(root) = disk.path() else {
            return Err(failed("a simulated disk needs a simulated index"));
        };
        let dir = root.join(DIR).join(INDEX);
        // fjall does its own, blocking I/O.
        let opened = platform
            .tasks
            .blocking(move || Index::open_fjall(&dir, files));
        opened.await.map_err(|error| failed(error_chain(&error)))
    }

    pub async fn open(
        disk: &Disk,
        platform: &Platform,
        id: &Superblock,
        target_options: TargetOptions,
    ) -> Result<Records, OpenError> {
        let mut log = LogOptions::new(StoreId {
            cluster: id.cluster,
            incarnation: id.incarnation,
        });
        log.segment_bytes = target_options.log_segment;
        log.sync_every = RECORDS_SYNCED_EVERY;
        let mut options = KvOptions::new(log);
        options.cache_bytes = RECORDS_CACHED;
        let disk = disk.subdirectory(&format!("{DIR}/{LOG}")).await?;
        match Kv::open(disk, target_options.index, options, platform.clone()).await {
            Ok((kv, _)) => Ok(Records(kv)),
            Err(error) => Err(failed(error_chain(&error))),
        }
    }

    pub fn object(&self, id: ObjectId) -> Result<Option<ObjectRecord>, RecordsError> {
        let found = self.0.get(&object_key(id))?;
        Ok(found
            .map(|bytes| ObjectRecord::decode(id, &bytes))
            .transpose()?)
    }

    pub fn region(&self, id: ObjectId, region: u64) -> Result<Option<RegionRecord>, RecordsError> {
        let found = self.0.get(&region_key(id, region))?;
        Ok(found
            .map(|bytes| RegionRecord::decode(id, &bytes))
            .transpose()?)
    }

    /// The regions of an object that have records, in order.
    pub fn regions(
        &self,
        id: ObjectId,
        among: Range<u64>,
        limit: usize,
    ) -> Result<Vec<u64>, RecordsError> {
        let from = region_key(id, among.start).into();
        let to = region_key(id, among.end).into();
        let found = self.0.scan(from, to, limit)?;
        Ok(found
            .iter()
            .filter_map(|(key, _)| region_of_key(key))
            .collect())
    }

    /// Stages the changes in the log, without I/O. The order of the calls is the order in the log.
    pub fn stage(&self, batch: RecordBatch) -> Result<Seq, RecordsError> {
        if let Some(closed) = self.0.closed() {
            return Err(KvError::from(closed).into());
        }
        match self.0.headroom() {
            Headroom::None => Err(RecordsError::NoSpace),
            Headroom::Plenty | Headroom::Low(_) => {
                Ok(self.0.stage(SHARD, batch.0).map_err(KvError::from)?)
            }
        }
    }

    /// Whether disk and memory have space for records that can wait.
    pub fn has_space(&self) -> bool {
        self.0.headroom() == Headroom::Plenty && self.0.has_space()
    }

    pub fn durable(&self) -> Seq {
        self.0.durable_seq()
    }

    pub async fn wait_committed(&self, seq: Seq) -> Result<(), RecordsError> {
        Ok(self.0.wait_committed(seq).await?)
    }

    pub async fn make_durable(&self, seq: Seq) -> Result<(), RecordsError> {
        Ok(self.0.wait_durable(seq).await?)
    }

    pub async fn stop(&self) -> Result<(), RecordsError> {
        match self.0.stop(StopMode::Clean).await {
            Err(KvError::Log(LogError::Stopped)) => Ok(()),
            other => Ok(other?),
        }
    }
}

fn failed(what: impl std::fmt::Display) -> OpenError {
    OpenError::new(
        OpenErrorKind::Records,
        format!("the target's records cannot be opened: {what}"),
    )
}
