//! What closing a file frees.
//!
//! The kernel keeps no list of locks that are ours, so it frees none. It says at each close(2) whose locks of records go; and of
//! an open file's own locks (OFD, flock) nothing: they go with it.

use crate::file::OpenFile;
use crate::limits::CLOSE_WAITS;
use crate::service::Client;
use gupfs_proto::Refusal;
use gupfs_proto::lock::{Extent, Holder, Kind};
use std::sync::Arc;
use std::time::Duration;

impl Client {
    /// close(2) by this owner of any of its descriptors of the file: all its locks of records in it are free. Asks nobody if it
    /// has none, and waits only a moment for a server that is away: a killed program closes its files as it ends.
    pub async fn unlock_at_close(
        self: &Arc<Self>,
        file: &OpenFile,
        owner: u64,
    ) -> Result<(), Refusal> {
        let holder = Holder {
            ino: file.ino(),
            kind: Kind::Record,
            owner,
        };
        self.locks.goes(holder);
        let client = self.clone();
        let mut freed = Box::pin(async move { client.free_all_of(holder).await });
        let patience = match self.locks.is_slow() {
            true => Duration::ZERO,
            false => CLOSE_WAITS,
        };
        tokio::select! {
            biased;
            freed = &mut freed => return freed,
            () = self.platform.clock.sleep(patience) => {}
        }
        // It is freed all the same. A program that has many files open waits once, not for each.
        self.locks.are_slow();
        self.platform
            .tasks
            .spawn("free what was closed", async move {
                if let Err(refusal) = freed.await {
                    tracing::info!(%refusal, "locks of a closed file are not free yet");
                }
            });
        Ok(())
    }

    /// The open file is gone: what was locked through it and is not freed yet was its own.
    pub(crate) async fn unlock_at_release(self: &Arc<Self>, file: u64) {
        for holder in self.locks.went_through(file) {
            if let Err(refusal) = self.free_all_of(holder).await {
                tracing::warn!(ino = %holder.ino, %refusal, "locks of a closed file could not be freed");
            }
        }
    }

    async fn free_all_of(self: &Arc<Self>, holder: Holder) -> Result<(), Refusal> {
        match self.locks.may_hold(holder) {
            true => self.free_lock(holder, Extent::WHOLE).await,
            false => Ok(()),
        }
    }
}
