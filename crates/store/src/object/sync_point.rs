//! Shares syncs among waiting tasks: a task that comes while a sync runs waits for the next one, and all that wait
//! share it.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a file or directory was modified, and how far it is durable.
pub(super) struct SyncPoint {
    modified: AtomicU64,
    synced: AtomicU64,
    sync_lock: tokio::sync::Mutex<()>,
}

impl SyncPoint {
    /// For a file or directory with unknown history: its first sync is a real one.
    pub fn unknown() -> SyncPoint {
        SyncPoint {
            modified: AtomicU64::new(1),
            synced: AtomicU64::new(0),
            sync_lock: tokio::sync::Mutex::new(()),
        }
    }

    /// For a file that does not exist yet: there is nothing to sync.
    pub fn synced() -> SyncPoint {
        SyncPoint {
            synced: AtomicU64::new(1),
            ..SyncPoint::unknown()
        }
    }

    /// Counts a modification that took effect: syncs that begin from now on cover it.
    pub fn note_modified(&self) {
        self.modified.fetch_add(1, Ordering::AcqRel);
    }

    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire) >= self.modified.load(Ordering::Acquire)
    }

    /// The modifications that a sync that begins now covers; pass it to `note_synced` when the sync is done.
    pub fn current_modification(&self) -> u64 {
        self.modified.load(Ordering::Acquire)
    }

    /// Notes that a sync that covers these modifications is done.
    pub fn note_synced(&self, covered: u64) {
        self.synced.fetch_max(covered, Ordering::AcqRel);
    }

    /// Returns when all modifications made before the call are durable, through `sync` or through another task's sync that
    /// began after them.
    pub async fn ensure_synced<E, F>(&self, sync: impl FnOnce() -> F) -> Result<(), E>
    where
        F: Future<Output = Result<(), E>>,
    {
        let wanted = self.modified.load(Ordering::Acquire);
        let reached = || self.synced.load(Ordering::Acquire) >= wanted;
        if reached() {
            return Ok(());
        }
        let _guard = self.sync_lock.lock().await;
        if reached() {
            return Ok(());
        }
        let covered = self.current_modification();
        sync().await?;
        self.note_synced(covered);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test]
    async fn ten_waiting_tasks_share_two_syncs() {
        let point = SyncPoint::unknown();
        let syncs = Cell::new(0);
        let one = async || {
            let sync = || async {
                syncs.set(syncs.get() + 1);
                tokio::task::yield_now().await;
                Ok::<(), ()>(())
            };
            point.ensure_synced(sync).await.unwrap();
        };
        let first = async {
            tokio::join!(one(), one(), one(), one(), one());
        };
        let later = async {
            point.note_modified(); // while the first sync runs, so it does not cover this modification
            tokio::join!(one(), one(), one(), one(), one());
        };
        tokio::join!(first, later);
        assert_eq!(syncs.get(), 2);
        assert!(point.is_synced());
        point.note_modified();
        let covered = point.current_modification();
        point.note_modified();
        point.note_synced(covered);
        assert!(!point.is_synced());
    }

    #[tokio::test]
    async fn a_failed_sync_leaves_the_point_unsynced() {
        let point = SyncPoint::unknown();
        assert_eq!(point.ensure_synced(|| async { Err(7) }).await, Err(7));
        assert!(!point.is_synced());
    }
}
