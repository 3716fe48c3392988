//! Syncs shared by those who wait for them: who comes while one runs waits for the next, and all who wait share it.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far something was changed, and how far it is durable.
pub(super) struct SyncPoint {
    changed: AtomicU64,
    synced: AtomicU64,
    gate: tokio::sync::Mutex<()>,
}

impl SyncPoint {
    /// Of something whose history is unknown: its first sync is a real one.
    pub fn unknown() -> SyncPoint {
        SyncPoint {
            changed: AtomicU64::new(1),
            synced: AtomicU64::new(0),
            gate: tokio::sync::Mutex::new(()),
        }
    }

    /// A change took effect: syncs that begin from now on cover it.
    pub fn change(&self) {
        self.changed.fetch_add(1, Ordering::AcqRel);
    }

    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire) >= self.changed.load(Ordering::Acquire)
    }

    /// What a sync that begins now covers; for `reached` when it is done.
    pub fn covered_from_now(&self) -> u64 {
        self.changed.load(Ordering::Acquire)
    }

    /// Another's sync that covers so much is done.
    pub fn reached(&self, covered: u64) {
        self.synced.fetch_max(covered, Ordering::AcqRel);
    }

    /// Returns when all changes made before the call are durable, by `sync` or by another's that began after them.
    pub async fn reach<E, F>(&self, sync: impl FnOnce() -> F) -> Result<(), E>
    where
        F: Future<Output = Result<(), E>>,
    {
        let wanted = self.changed.load(Ordering::Acquire);
        let reached = || self.synced.load(Ordering::Acquire) >= wanted;
        if reached() {
            return Ok(());
        }
        let _gate = self.gate.lock().await;
        if reached() {
            return Ok(());
        }
        let covered = self.covered_from_now();
        sync().await?;
        self.reached(covered);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test]
    async fn ten_who_wait_share_two_syncs() {
        let point = SyncPoint::unknown();
        let syncs = Cell::new(0);
        let one = async || {
            let sync = || async {
                syncs.set(syncs.get() + 1);
                tokio::task::yield_now().await;
                Ok::<(), ()>(())
            };
            point.reach(sync).await.unwrap();
        };
        let first = async {
            tokio::join!(one(), one(), one(), one(), one());
        };
        let later = async {
            point.change(); // while the first sync runs: it does not cover this
            tokio::join!(one(), one(), one(), one(), one());
        };
        tokio::join!(first, later);
        assert_eq!(syncs.get(), 2);
        assert!(point.is_synced());
        point.change();
        let covered = point.covered_from_now();
        point.change();
        point.reached(covered);
        assert!(!point.is_synced());
    }

    #[tokio::test]
    async fn a_failed_sync_leaves_it_unsynced() {
        let point = SyncPoint::unknown();
        assert_eq!(point.reach(|| async { Err(7) }).await, Err(7));
        assert!(!point.is_synced());
    }
}
