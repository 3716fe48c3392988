//! The target's own records: a log and its index in its directory.

use super::error::{OpenError, OpenErrorKind, told};
use super::limits::{RECORDS_CACHED, RECORDS_SYNCED_EVERY};
use super::objects::Engine;
use super::record::{
    ObjectRecord, RegionRecord, Unreadable, object_key, region_key, region_of_key,
};
use super::superblock::Superblock;
use crate::index::Index;
use crate::kv::{self, Kv, KvError, KvOptions};
use crate::log::{Headroom, LogError, LogOptions, Stop, StoreId};
use gupfs_platform::{Disk, DiskError, Platform};
use gupfs_proto::{ObjectId, Seq};
use std::ops::Range;

/// Below the target's directory; the log lies in `log` below it, the index in `index`.
const DIR: &str = "records";
const LOG: &str = "log";
const INDEX: &str = "index";

/// All records of a target are one part of the log's keys.
const SHARD: u16 = 0;

pub(super) struct Records(Kv);

/// Changes that survive together or not at all.
#[derive(Default)]
pub(super) struct Batch(kv::Batch);

impl Batch {
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
    #[error("the log has no room for one more record")]
    Full,
    #[error(transparent)]
    Store(#[from] KvError),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

impl RecordsError {
    /// Whether the disk failed, or may have: what the index says of itself does not tell.
    pub fn is_of_the_disk(&self) -> bool {
        matches!(
            self,
            RecordsError::Store(
                KvError::Index(_) | KvError::Log(LogError::Disk(_) | LogError::Abandoned(_))
            )
        )
    }
}

impl Records {
    /// Makes the directories that `open` needs; the caller syncs the target's.
    pub async fn init(disk: &Disk) -> Result<(), DiskError> {
        disk.create_dir(DIR).await?;
        disk.create_dir(&format!("{DIR}/{LOG}")).await?;
        disk.sync_dir(DIR).await
    }

    /// The index where it lies on a real disk.
    pub async fn index(disk: &Disk, platform: &Platform, files: usize) -> Result<Index, OpenError> {
        let Some(root) = disk.path() else {
            return Err(failed("a faked disk needs a faked index"));
        };
        let dir = root.join(DIR).join(INDEX);
        // It does its own I/O.
        let opened = platform
            .tasks
            .blocking(move || Index::open_fjall(&dir, files));
        opened.await.map_err(|error| failed(told(&error)))
    }

    pub async fn open(
        disk: &Disk,
        platform: &Platform,
        whose: &Superblock,
        engine: Engine,
    ) -> Result<Records, OpenError> {
        let mut log = LogOptions::new(StoreId {
            cluster: whose.cluster,
            incarnation: whose.incarnation,
        });
        log.segment_bytes = engine.log_segment;
        log.sync_every = RECORDS_SYNCED_EVERY;
        let mut options = KvOptions::new(log);
        options.cache_bytes = RECORDS_CACHED;
        let disk = disk.under(&format!("{DIR}/{LOG}")).await?;
        match Kv::open(disk, engine.index, options, platform.clone()).await {
            Ok((kv, _)) => Ok(Records(kv)),
            Err(error) => Err(failed(told(&error))),
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

    /// Regions of an object that have records, in order.
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

    /// Gives the changes their place in the log, at once; the order of calls is what survives.
    pub fn stage(&self, batch: Batch) -> Result<Seq, RecordsError> {
        if let Some(closed) = self.0.closed() {
            return Err(KvError::from(closed).into());
        }
        match self.0.headroom() {
            Headroom::None => Err(RecordsError::Full),
            Headroom::Plenty | Headroom::Low(_) => {
                Ok(self.0.stage(SHARD, batch.0).map_err(KvError::from)?)
            }
        }
    }

    /// Whether there is room for records that can wait, on disk and in memory.
    pub fn may_grow(&self) -> bool {
        self.0.headroom() == Headroom::Plenty && self.0.has_room()
    }

    pub fn durable(&self) -> Seq {
        self.0.durable_seq()
    }

    pub async fn committed(&self, seq: Seq) -> Result<(), RecordsError> {
        Ok(self.0.committed(seq).await?)
    }

    pub async fn make_durable(&self, seq: Seq) -> Result<(), RecordsError> {
        Ok(self.0.durable(seq).await?)
    }

    pub async fn stop(&self) -> Result<(), RecordsError> {
        match self.0.stop(Stop::InOrder).await {
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
