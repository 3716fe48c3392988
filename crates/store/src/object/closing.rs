//! Closing: why a target serves nothing until it is opened again, and what it records on disk after a failed sync.

use super::error::error_chain;
use super::superblock::SuperblockFile;
use gupfs_platform::{DiskError, Tasks};
use gupfs_proto::{FsError, OstId};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

pub(super) struct ClosingState {
    ost: OstId,
    superblock: SuperblockFile,
    tasks: Tasks,
    /// The reason why the target is closed.
    reason: OnceLock<String>,
    /// The target was refused: closed because of its identity, not because of a failure.
    refused: AtomicBool,
    /// Set once the write verifier is retired; true when the superblock records it, or when writing it has failed.
    retirement: OnceLock<watch::Receiver<bool>>,
}

impl ClosingState {
    pub fn new(ost: OstId, superblock: SuperblockFile, tasks: Tasks) -> ClosingState {
        ClosingState {
            ost,
            superblock,
            tasks,
            reason: OnceLock::new(),
            refused: AtomicBool::new(false),
            retirement: OnceLock::new(),
        }
    }

    /// Fails if the target is closed.
    pub fn check_open(&self) -> Result<(), FsError> {
        match self.reason.get() {
            None => Ok(()),
            Some(why) => Err(FsError::TargetDown {
                ost: self.ost,
                reason: why.clone(),
            }),
        }
    }

    pub fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }

    /// Closes the target until it is opened again; returns the error that its operations get from now on.
    pub fn close(&self, why: impl Into<String>) -> FsError {
        let why = why.into();
        tracing::error!(ost = self.ost.0, why, "target closed");
        // The first reason is the cause; later ones are its consequences.
        let _ = self.reason.set(why);
        self.check_open().expect_err("it was closed just now")
    }

    /// Closes the target because its data must not be used.
    pub fn refuse(&self, why: impl Into<String>) {
        self.refused.store(true, Ordering::Relaxed);
        self.close(why);
    }

    pub fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Closes the target after a clean stop.
    pub fn close_stopped(&self) {
        let _ = self.reason.set("the target was stopped".to_owned());
    }

    /// After a failed sync no data in the page cache is reliable: the target closes, and its next start takes another
    /// write verifier.
    pub fn sync_failed(&self, error: &DiskError) -> FsError {
        self.retire_verifier();
        self.close(format!("a sync failed: {}", error_chain(error)))
    }

    /// Retires the write verifier: the next start must take another one. Call it before the target is closed, so that a
    /// task that finds it closed sees the verifier retired.
    pub fn retire_verifier(&self) {
        self.retirement.get_or_init(|| self.record_retirement());
    }

    /// Records the retirement in the superblock, in a task of its own, because the disk may not respond.
    fn record_retirement(&self) -> watch::Receiver<bool> {
        let (done, retired) = watch::channel(false);
        let file = self.superblock.clone();
        self.tasks.spawn("retire write verifier", async move {
            let mut superblock = file.lock().await;
            superblock.page_cache_id = 0;
            if let Err(error) = file.write(&superblock).await {
                tracing::error!(%error, "the superblock could not record that a sync failed: clients that wrote before may not learn that their writes may be lost");
            }
            done.send_replace(true);
        });
        retired
    }

    /// Whether a sync has failed.
    pub fn is_verifier_retired(&self) -> bool {
        self.retirement.get().is_some()
    }

    /// Returns when the superblock records that the write verifier is retired, or when writing it has failed; at once
    /// if the verifier is valid.
    pub async fn wait_retirement_recorded(&self) {
        if let Some(retired) = self.retirement.get() {
            // An error means that the writing task is gone: then nothing more is written.
            let _ = retired.clone().wait_for(|done| *done).await;
        }
    }
}
