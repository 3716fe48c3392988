//! The disk and the index of one copy of the metadata.

use crate::cluster::request_monitor::RequestMonitor;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use gupfs_copies::CopyFiles;
use gupfs_platform::fake::{FakeDisk, FakeRandom};
use gupfs_platform::{Disk, Random};
use gupfs_store::index::{FakeIndex, Index};
use parking_lot::Mutex;
use std::sync::Arc;

/// What outlives a process.
pub struct CopyStore {
    pub disk: FakeDisk,
    index: Arc<Mutex<FakeIndex>>,
}

/// The files as one process uses them.
struct ProcessFiles {
    disk: Disk,
    index: Arc<Mutex<FakeIndex>>,
    /// The index of this process, which a later one does not share.
    own: Mutex<FakeIndex>,
    monitor: Arc<RequestMonitor>,
}

impl CopyStore {
    pub fn new(disk: FakeDisk) -> CopyStore {
        CopyStore {
            disk,
            index: Arc::new(Mutex::new(FakeIndex::new())),
        }
    }

    pub fn files(&self, monitor: &Arc<RequestMonitor>) -> Arc<dyn CopyFiles> {
        Arc::new(ProcessFiles {
            disk: self.disk.disk(),
            index: self.index.clone(),
            own: Mutex::new(self.index.lock().clone()),
            monitor: monitor.clone(),
        })
    }

    /// Called after the process has ended. After a power loss a part of the unsynced bytes is gone.
    pub fn restart(&self, power_loss: bool, random: &FakeRandom) {
        match power_loss {
            true => self.disk.crash(),
            false => self.disk.restart(),
        }
        // What the former process still does reaches its own index alone.
        let index = self.index.lock().copy();
        if power_loss {
            index.crash(&Random::fake(random.fork()));
        }
        *self.index.lock() = index;
    }

    /// Removes all files while no process runs, as an operator who makes the directory anew.
    pub async fn clear(&self) {
        *self.index.lock() = FakeIndex::new();
        let removed = remove_files(&self.disk.disk()).await;
        removed.expect("no fault is injected while no process runs");
    }
}

impl CopyFiles for ProcessFiles {
    fn log_disk(&self) -> Result<Disk, String> {
        Ok(self.disk.clone())
    }

    fn open_index(&self) -> Result<Index, String> {
        Ok(Index::fake(self.own.lock().clone()))
    }

    fn clear(&self) -> BoxFuture<'static, Result<(), String>> {
        self.monitor.count("snapshot for a copy");
        let fresh = FakeIndex::new();
        *self.own.lock() = fresh.clone();
        *self.index.lock() = fresh;
        let disk = self.disk.clone();
        Box::pin(async move { remove_files(&disk).await })
    }

    fn has_room(&self) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(true))
    }

    // The simulated servers accept all client keys.
    fn read_key_list(&self) -> Result<Option<Bytes>, String> {
        Ok(None)
    }

    fn write_key_list(&self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

async fn remove_files(disk: &Disk) -> Result<(), String> {
    let entries = disk.list(".").await.map_err(|error| error.to_string())?;
    for entry in entries {
        let removed = disk.remove_file(&entry.name).await;
        removed.map_err(|error| error.to_string())?;
    }
    disk.sync_dir(".").await.map_err(|error| error.to_string())
}
