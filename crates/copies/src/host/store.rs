//! Opening and closing this host's copy of the store.

use super::CopyHost;
use crate::error::CopiesError;
use gupfs_platform::Disk;
use gupfs_proto::OwnerEpoch;
use gupfs_proto::copy::{CopyRefusal, LogPosition};
use gupfs_store::index::Index;
use gupfs_store::kv::{KvCopy, KvError};
use gupfs_store::log::LogError;
use std::sync::Arc;

/// A new index that gets its records.
pub struct Loading {
    pub index: Index,
    pub owner: OwnerEpoch,
    pub at: LogPosition,
    /// Parts that it has got.
    pub parts: u64,
}

pub enum HostStore {
    Open(Arc<KvCopy>),
    /// It gets the owner's records from the beginning.
    Loading(Loading),
    /// It is closed, empty or damaged, for this reason.
    Unusable(String),
    /// This process is the owner, and its log is not a copy any more.
    Owner,
}

/// The files of a copy that was closed in order: they have everything that it had.
pub struct ClosedCopy {
    pub disk: Disk,
    pub index: Index,
    pub end: LogPosition,
}

impl CopyHost {
    /// Opens what the directory has. A copy without any records, or whose files are damaged, stays closed: the owner gives it all
    /// records.
    ///
    /// # Errors
    /// `Files` if the directory cannot be used; `Store` if it belongs to another store, or a newer program has written it.
    pub async fn open(&self, may_be_new: bool) -> Result<(), CopiesError> {
        let _turn = self.reopening.lock().await;
        let (disk, index) = self.open_files().await?;
        let is_empty = index.applied().0 == 0 && self.has_no_log(&disk).await?;
        if is_empty && !may_be_new {
            let why = "it has no records yet";
            *self.store.lock() = HostStore::Unusable(why.into());
            return Ok(());
        }
        match self.open_copy(disk, index, None).await {
            Ok(copy) => {
                self.set_open(copy);
                Ok(())
            }
            Err(error) if is_damage(&error) => {
                tracing::warn!(error = %text_of(&error), "this copy of the metadata is damaged; the owner must give it all records again");
                *self.store.lock() = HostStore::Unusable(text_of(&error));
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn open_files(&self) -> Result<(Disk, Index), CopiesError> {
        let disk = self.files.log_disk().map_err(CopiesError::Files)?;
        let files = self.files.clone();
        let index = self.platform.tasks.blocking(move || files.open_index());
        Ok((disk, index.await.map_err(CopiesError::Files)?))
    }

    async fn has_no_log(&self, disk: &Disk) -> Result<bool, CopiesError> {
        let entries = disk.list(".").await;
        let entries = entries.map_err(|error| KvError::from(LogError::from(error)))?;
        Ok(entries.is_empty())
    }

    async fn open_copy(
        &self,
        disk: Disk,
        index: Index,
        end_at: Option<LogPosition>,
    ) -> Result<KvCopy, KvError> {
        let mut options = self.kv.clone();
        options.log.end_at = end_at;
        let begin = LogPosition::default();
        let (copy, found) =
            KvCopy::open(disk, index, options, begin, self.platform.clone()).await?;
        tracing::info!(
            end = found.end.last.0,
            epoch = found.epoch.0,
            durable = found.durable.0,
            "the copy of the metadata is open"
        );
        Ok(copy)
    }

    pub(super) fn set_open(&self, copy: KvCopy) {
        let mut obeys = self.obeys.lock();
        *obeys = (*obeys).max(copy.epoch());
        copy.refuse_before(*obeys);
        *self.store.lock() = HostStore::Open(Arc::new(copy));
    }

    /// The open copy.
    pub fn copy(&self) -> Option<Arc<KvCopy>> {
        match &*self.store.lock() {
            HostStore::Open(copy) => Some(copy.clone()),
            _ => None,
        }
    }

    /// Closes the copy in order; it stays closed.
    ///
    /// # Errors
    /// `Store` if its last sync fails, or it failed before; `Files` if it is not open.
    pub async fn close(&self, why: &str) -> Result<ClosedCopy, CopiesError> {
        let copy = {
            let mut store = self.store.lock();
            let HostStore::Open(copy) = &*store else {
                return Err(CopiesError::Files("the copy is not open".into()));
            };
            let copy = copy.clone();
            *store = HostStore::Unusable(why.into());
            copy
        };
        copy.stop().await?;
        Ok(ClosedCopy {
            disk: self.files.log_disk().map_err(CopiesError::Files)?,
            index: copy.index(),
            end: copy.end(),
        })
    }

    /// From now on this process is the owner; the copy was closed.
    pub fn become_owner(&self) {
        *self.store.lock() = HostStore::Owner;
    }

    /// Drops the records after this position.
    pub(super) async fn cut_to(&self, end: LogPosition) -> Result<LogPosition, CopyRefusal> {
        let failed = |error: CopiesError| CopyRefusal::Failed(text_of(&error));
        let _turn = self.reopening.lock().await;
        let copy = (self.copy()).ok_or_else(|| CopyRefusal::Failed("it is not open".into()))?;
        if copy.end() == end {
            return Ok(end);
        }
        if !copy.has(end) {
            return Err(CopyRefusal::NoSuchPosition);
        }
        drop(copy);
        let closed = self.close("it drops its last records").await;
        let closed = closed.map_err(failed)?;
        let opened = self.open_copy(closed.disk, closed.index, Some(end)).await;
        let copy = opened.map_err(|error| {
            *self.store.lock() = HostStore::Unusable(text_of(&error));
            failed(error.into())
        })?;
        tracing::info!(
            from = closed.end.last.0,
            to = end.last.0,
            "the copy dropped records that no client was answered"
        );
        let end = copy.end();
        self.set_open(copy);
        Ok(end)
    }
}

/// Whether only a copy of the owner's records helps.
fn is_damage(error: &KvError) -> bool {
    let damaged_log = matches!(
        error,
        KvError::Log(LogError::Damage { .. } | LogError::Gap { .. } | LogError::NoLog { .. })
    );
    damaged_log || matches!(error, KvError::Malformed { .. })
}

/// An error with its causes, on one line.
pub fn text_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
