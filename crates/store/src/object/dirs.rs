//! Tracks which directories have names that are not durable yet.

use super::paths::OBJECTS_DIR;
use super::sync_point::SyncPoint;
use gupfs_platform::hash::Map;
use gupfs_platform::{Disk, DiskError};
use parking_lot::Mutex;
use std::sync::Arc;

/// Directories remembered before those with nothing to sync are forgotten; a forgotten directory costs one needless
/// sync.
const REMEMBERED: usize = 16 << 10;

pub(super) struct Dirs {
    disk: Disk,
    known: Mutex<Map<String, Arc<SyncPoint>>>,
}

impl Dirs {
    pub fn new(disk: Disk) -> Dirs {
        Dirs {
            disk,
            known: Mutex::default(),
        }
    }

    /// Notes that a name was created in a directory, or removed from it.
    pub fn note_modified(&self, dir: &str) {
        self.sync_point(dir).note_modified();
    }

    /// Creates an object directory, unless it exists.
    pub async fn create(&self, dir: &str) -> Result<(), DiskError> {
        self.disk.create_dir(dir).await?;
        self.note_modified(OBJECTS_DIR);
        Ok(())
    }

    /// The sync points of an object directory: of the names in it, and of its own name.
    pub fn sync_points(&self, dir: &str) -> [Arc<SyncPoint>; 2] {
        [self.sync_point(dir), self.sync_point(OBJECTS_DIR)]
    }

    /// The sync point of the names in a directory.
    pub fn sync_point(&self, dir: &str) -> Arc<SyncPoint> {
        let mut known = self.known.lock();
        if let Some(point) = known.get(dir) {
            return Arc::clone(point);
        }
        if known.len() >= REMEMBERED {
            known.retain(|_, point| Arc::strong_count(point) > 1 || !point.is_synced());
        }
        let point = Arc::new(SyncPoint::unknown());
        known.insert(dir.to_owned(), Arc::clone(&point));
        point
    }
}
