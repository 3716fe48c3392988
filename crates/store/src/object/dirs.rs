//! Which directories have names that are not durable yet.

use super::place::TOP;
use super::sync_point::SyncPoint;
use gupfs_platform::hash::Map;
use gupfs_platform::{Disk, DiskError};
use parking_lot::Mutex;
use std::sync::Arc;

/// Directories remembered before those with nothing to sync are forgotten; they only cost a needless sync then.
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

    /// A name was made in it, or removed.
    pub fn changed(&self, dir: &str) {
        self.point(dir).change();
    }

    /// Makes an object directory; it may be there.
    pub async fn make(&self, dir: &str) -> Result<(), DiskError> {
        self.disk.create_dir(dir).await?;
        self.changed(TOP);
        Ok(())
    }

    /// Those of an object directory's name and of the names in it.
    pub fn points(&self, dir: &str) -> [Arc<SyncPoint>; 2] {
        [self.point(dir), self.point(TOP)]
    }

    /// What of a directory's names is durable.
    pub fn point(&self, dir: &str) -> Arc<SyncPoint> {
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
