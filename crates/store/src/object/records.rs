//! The target's records: a log and its index in the target's directory.

use super::closing::ClosingState;
use super::error::{OpenError, OpenErrorKind, error_chain};
use super::limits::{RECORDS_CACHED, RECORDS_SYNCED_EVERY};
use super::options::TargetOptions;
use super::record::{
    ObjectRecord, RegionRecord, UnreadableRecord, object_key, region_key, region_of_key,
};
use super::superblock::Superblock;
use crate::index::Index;
use crate::kv::{self, Kv, KvError, KvOptions};
use crate::log::{Headroom, LogError, LogOptions, StopMode, StoreId};
use gupfs_platform::{Disk, DiskError, Platform};
use gupfs_proto::{FsError, ObjectId, Seq};
use std::ops::Range;
use std::sync::Arc;

/// Below the target's directory. The log is in `log` below it, the index in `index`.
const DIR: &str = "records";
const LOG: &str = "log";
const INDEX: &str = "index";

/// All records of a target have the same shard.
const SHARD: u16 = 0;

/// Without its records a target does not know which of its data is intact, so an error of them closes the target, unless
/// the log only lacks space.
pub(super) struct Records {
    kv: Kv,
    closing: Arc<ClosingState>,
}

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
enum RecordsError {
    #[error("the log has no space for another record")]
    NoSpace,
    #[error(transparent)]
    Store(#[from] KvError),
    #[error(transparent)]
    UnreadableRecord(#[from] UnreadableRecord),
}

impl RecordsError {
    /// Whether the disk has failed, or may have: errors of the index do not say whether the disk is the cause.
    fn may_be_disk_error(&self) -> bool {
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
            return Err(cannot_open("a simulated disk needs a simulated index"));
        };
        let dir = root.join(DIR).join(INDEX);
        // fjall does its own, blocking I/O.
        let opened = platform
            .tasks
            .blocking(move || Index::open_fjall(&dir, files));
        opened
            .await
            .map_err(|error| cannot_open(error_chain(&error)))
    }

    pub async fn open(
        disk: &Disk,
        platform: &Platform,
        id: &Superblock,
        target_options: TargetOptions,
        closing: Arc<ClosingState>,
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
            Ok((kv, _)) => Ok(Records { kv, closing }),
            Err(error) => Err(cannot_open(error_chain(&error))),
        }
    }

    pub fn object(&self, id: ObjectId) -> Result<Option<ObjectRecord>, FsError> {
        self.get(&object_key(id), |bytes| ObjectRecord::decode(id, bytes))
    }

    pub fn region(&self, id: ObjectId, region: u64) -> Result<Option<RegionRecord>, FsError> {
        self.get(&region_key(id, region), |bytes| {
            RegionRecord::decode(id, bytes)
        })
    }

    fn get<T>(
        &self,
        key: &[u8],
        decode: impl Fn(&[u8]) -> Result<T, UnreadableRecord>,
    ) -> Result<Option<T>, FsError> {
        let found = self.kv.get(key).map_err(|error| self.failed(error))?;
        found
            .map(|bytes| decode(&bytes))
            .transpose()
            .map_err(|error| self.failed(error))
    }

    /// The regions of an object that have records, in order.
    pub fn regions(
        &self,
        id: ObjectId,
        among: Range<u64>,
        limit: usize,
    ) -> Result<Vec<u64>, FsError> {
        let from = region_key(id, among.start).into();
        let to = region_key(id, among.end).into();
        let found = self.kv.scan(from, to, limit);
        let found = found.map_err(|error| self.failed(error))?;
        Ok(found
            .iter()
            .filter_map(|(key, _)| region_of_key(key))
            .collect())
    }

    /// Stages the changes in the log, without I/O. The order of the calls is the order in the log.
    pub fn stage(&self, batch: RecordBatch) -> Result<Seq, FsError> {
        if let Some(closed) = self.kv.closed() {
            return Err(self.failed(KvError::from(closed)));
        }
        match self.kv.headroom() {
            Headroom::None => Err(self.failed(RecordsError::NoSpace)),
            Headroom::Plenty | Headroom::Low(_) => {
                let staged = self.kv.stage(SHARD, batch.0);
                staged.map_err(|error| self.failed(KvError::from(error)))
            }
        }
    }

    /// Whether disk and memory have space for records that can wait.
    pub fn has_space(&self) -> bool {
        self.kv.headroom() == Headroom::Plenty && self.kv.has_space()
    }

    pub fn durable(&self) -> Seq {
        self.kv.durable_seq()
    }

    pub async fn wait_committed(&self, seq: Seq) -> Result<(), FsError> {
        let done = self.kv.wait_committed(seq).await;
        done.map_err(|error| self.failed(error))
    }

    /// Returns when the records up to `seq` are durable.
    pub async fn make_durable(&self, seq: Seq) -> Result<(), FsError> {
        let done = self.kv.wait_durable(seq).await;
        done.map_err(|error| self.failed(error))
    }

    pub async fn stop(&self) -> Result<(), FsError> {
        match self.kv.stop(StopMode::Clean).await {
            Err(KvError::Log(LogError::Stopped)) => Ok(()),
            other => other.map_err(|error| self.failed(error)),
        }
    }

    fn failed(&self, error: impl Into<RecordsError>) -> FsError {
        let error = error.into();
        if matches!(error, RecordsError::NoSpace) {
            return FsError::NoSpace;
        }
        // The objects are on the same disk.
        if error.may_be_disk_error() {
            self.closing.retire_verifier();
        }
        self.closing.close(format!(
            "the log or index of its records failed: {}",
            error_chain(&error)
        ))
    }
}

fn cannot_open(what: impl std::fmt::Display) -> OpenError {
    OpenError::new(
        OpenErrorKind::Records,
        format!("the target's records cannot be opened: {what}"),
    )
}
