//! A copy that begins anew, with all records of the owner's index.

use super::CopyHost;
use super::store::{HostStore, Loading, text_of};
use bytes::Bytes;
use gupfs_proto::OwnerEpoch;
use gupfs_proto::copy::{CopyRefusal, LogPosition};
use gupfs_store::kv::{KvCopy, KvError, add_snapshot_part, finish_snapshot};

impl CopyHost {
    /// Discards what this host has. A snapshot that was under way begins again.
    pub(super) async fn begin_snapshot(
        &self,
        owner: OwnerEpoch,
        at: LogPosition,
    ) -> Result<LogPosition, CopyRefusal> {
        let _turn = self.reopening.lock().await;
        if self.copy().is_some() {
            let why = "it begins anew";
            // Its files are removed: an error of the last sync does not matter.
            let closed = self.close(why).await;
            drop(closed);
        }
        *self.store.lock() = HostStore::Unusable("it begins anew".into());
        tracing::info!(
            at = at.last.0,
            "this copy of the metadata begins anew: the owner gives it all records"
        );
        self.files.clear().await.map_err(CopyRefusal::Failed)?;
        let opened = self.open_files().await;
        let (_, index) = opened.map_err(|error| CopyRefusal::Failed(text_of(&error)))?;
        let claimed = index.claim(self.kv.log.store);
        claimed.map_err(|error| CopyRefusal::Failed(text_of(&error)))?;
        *self.store.lock() = HostStore::Loading(Loading {
            index,
            owner,
            at,
            parts: 0,
        });
        Ok(at)
    }

    pub(super) async fn add_snapshot_part(
        &self,
        owner: OwnerEpoch,
        number: u64,
        records: Bytes,
    ) -> Result<LogPosition, CopyRefusal> {
        let _turn = self.reopening.lock().await;
        let (index, at) = {
            let mut store = self.store.lock();
            match &mut *store {
                HostStore::Loading(loading)
                    if loading.owner == owner && loading.parts == number =>
                {
                    loading.parts += 1;
                    (loading.index.clone(), loading.at)
                }
                _ => return Err(CopyRefusal::NoSuchPosition),
            }
        };
        let tasks = &self.platform.tasks;
        let added = tasks.blocking(move || add_snapshot_part(&index, records));
        match added.await {
            Ok(()) => Ok(at),
            Err(KvError::Malformed { .. }) => Err(CopyRefusal::Malformed),
            Err(error) => Err(CopyRefusal::Failed(text_of(&error))),
        }
    }

    pub(super) async fn end_snapshot(
        &self,
        owner: OwnerEpoch,
        parts: u64,
    ) -> Result<LogPosition, CopyRefusal> {
        let failed = |error: KvError| CopyRefusal::Failed(text_of(&error));
        let _turn = self.reopening.lock().await;
        let (index, at) = match &*self.store.lock() {
            HostStore::Loading(loading) if loading.owner == owner && loading.parts == parts => {
                (loading.index.clone(), loading.at)
            }
            _ => return Err(CopyRefusal::NoSuchPosition),
        };
        let finishing = index.clone();
        let tasks = &self.platform.tasks;
        let finished = tasks.blocking(move || finish_snapshot(&finishing, at));
        finished.await.map_err(failed)?;
        let disk = self.files.log_disk().map_err(CopyRefusal::Failed)?;
        let mut options = self.kv.clone();
        options.log.start_after_index = true;
        let opened = KvCopy::open(disk, index, options, at, self.platform.clone()).await;
        let (copy, _) = opened.map_err(failed)?;
        self.set_open(copy);
        Ok(at)
    }
}
