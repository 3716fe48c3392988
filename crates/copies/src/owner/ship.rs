//! Sends the owner's records to the copies that count, as the log's group commit asks for it.

use super::OwnerShared;
use super::strike::failure_of;
use crate::limits::{APPEND_TIMEOUT, PART_BYTES, SYNC_TIMEOUT};
use crate::peers::{CopyCallError, CopyPeer};
use futures_util::future::join_all;
use gupfs_proto::Seq;
use gupfs_proto::copy::CopyOp;
use gupfs_store::log::{CopyFuture, LogCopies, LogError, RecordGroup};
use std::sync::Arc;

/// The copies of the owner's log.
pub struct Shipper(pub(super) Arc<OwnerShared>);

impl LogCopies for Shipper {
    fn append(&self, group: RecordGroup) -> CopyFuture {
        let owner = self.0.clone();
        Box::pin(async move { owner.append_everywhere(group).await })
    }

    fn sync(&self, _last: Seq) -> CopyFuture {
        let owner = self.0.clone();
        Box::pin(async move { owner.sync_everywhere().await })
    }

    fn failed(&self, why: &LogError) {
        self.0.depose(format!("its own log failed: {why}"));
    }
}

impl OwnerShared {
    async fn append_everywhere(&self, group: RecordGroup) -> Result<(), String> {
        tracing::trace!(target: "walk", file = file!(), "append_everywhere");
        let mut end = self.turn.lock().await;
        // Before the copies have them: a call that is given up may have reached some.
        *end = group.upto;
        let parts = group.into_parts(self.store, PART_BYTES);
        let parts = parts.map_err(|error| error.to_string())?;
        let appends = self.counting().into_iter().map(|copy| {
            let parts = &parts;
            async move {
                let appended = self.append_parts(&copy, parts).await;
                (copy, appended)
            }
        });
        let failed = join_all(appends).await.into_iter();
        let failed = failed.filter_map(|(copy, done)| Some((copy, done.err()?)));
        for (copy, error) in failed {
            self.strike(&copy, &failure_of("take the last records", &error))
                .await?;
        }
        Ok(())
    }

    /// Gives a copy consecutive records.
    pub(super) async fn append_parts(
        &self,
        copy: &CopyPeer,
        parts: &[RecordGroup],
    ) -> Result<(), CopyCallError> {
        for part in parts {
            let append = CopyOp::Append {
                owner: self.epoch,
                after: part.after,
                upto: part.upto,
                records: part.bytes.clone(),
            };
            let end = copy.call(append, APPEND_TIMEOUT).await?;
            self.note_end(copy.id, end);
        }
        Ok(())
    }

    async fn sync_everywhere(&self) -> Result<(), String> {
        let syncs = self.counting().into_iter().map(|copy| async move {
            let sync = CopyOp::Sync { owner: self.epoch };
            let synced = copy.call(sync, SYNC_TIMEOUT).await;
            (copy, synced)
        });
        for (copy, synced) in join_all(syncs).await {
            match synced {
                Ok(end) => self.note_synced(copy.id, end),
                Err(error) => {
                    let why = failure_of("sync its log", &error);
                    self.strike(&copy, &why).await?;
                }
            }
        }
        Ok(())
    }
}
