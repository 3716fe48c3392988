//! Lists a target's objects by the names of their files, without loading them.

use super::limits::INODES_PER_DIR;
use super::paths::{OBJECTS_DIR, dir_path, file_path, first_inode_of_dir, parse_file_name};
use gupfs_platform::{Disk, DiskError, DiskErrorKind, DiskStat};
use gupfs_proto::cluster::ObjectInventory;
use gupfs_proto::{ObjectId, OwnerEpoch};
use std::collections::BTreeMap;

#[derive(Clone)]
pub(super) struct ObjectListing {
    disk: Disk,
}

impl ObjectListing {
    pub fn new(disk: Disk) -> ObjectListing {
        ObjectListing { disk }
    }

    /// The next objects by their names on disk.
    pub async fn ids_after(
        &self,
        after: Option<ObjectId>,
        limit: usize,
    ) -> Result<Vec<ObjectId>, DiskError> {
        let mut found = Vec::new();
        // Names have equal length, so their order is the order of inodes.
        let from = after.map(|id| dir_path(id)[OBJECTS_DIR.len() + 1..].to_owned());
        for dir in object_dirs(&self.disk).await? {
            if from.as_ref().is_some_and(|from| dir < *from) {
                continue;
            }
            let mut here = objects_in(&self.disk, &dir).await?;
            here.retain(|id| after.is_none_or(|after| *id > after));
            here.sort();
            found.append(&mut here);
            if found.len() >= limit {
                found.truncate(limit);
                break;
            }
        }
        Ok(found)
    }

    /// The objects that owners after epoch `since` created, and the highest inode numbers in use.
    pub async fn inventory(&self, since: OwnerEpoch) -> Result<ObjectInventory, DiskError> {
        let mut inventory = ObjectInventory {
            since,
            ..ObjectInventory::default()
        };
        let mut numbers = BTreeMap::new();
        for dir in object_dirs(&self.disk).await? {
            if let Some(first) = first_inode_of_dir(&dir) {
                let above = first.counter() + INODES_PER_DIR;
                let highest = numbers.entry(first.shard()).or_insert(above);
                *highest = above.max(*highest);
            }
            for id in objects_in(&self.disk, &dir).await? {
                if id.generation.window() <= since.counter() {
                    continue;
                }
                inventory.newer_objects += 1;
                if let Some(stat) = self.disk.stat(&file_path(id, 0)).await? {
                    inventory.newest = inventory.newest.max(Some(stat.mtime));
                }
            }
        }
        inventory.inode_counters = numbers.into_iter().collect();
        Ok(inventory)
    }

    /// The number of objects.
    pub async fn count(&self) -> Result<u64, DiskError> {
        let mut count = 0;
        for dir in object_dirs(&self.disk).await? {
            count += objects_in(&self.disk, &dir).await?.len() as u64;
        }
        Ok(count)
    }

    /// The attributes of an object's first file; None if there is no such object.
    pub async fn stat_first_segment(&self, id: ObjectId) -> Result<Option<DiskStat>, DiskError> {
        self.disk.stat(&file_path(id, 0)).await
    }
}

async fn object_dirs(disk: &Disk) -> Result<Vec<String>, DiskError> {
    let entries = disk.list(OBJECTS_DIR).await?;
    let dirs = entries
        .into_iter()
        .map(|entry| entry.name)
        .filter(|name| first_inode_of_dir(name).is_some());
    Ok(dirs.collect())
}

async fn objects_in(disk: &Disk, dir: &str) -> Result<Vec<ObjectId>, DiskError> {
    let entries = match disk.list(&format!("{OBJECTS_DIR}/{dir}")).await {
        Ok(entries) => entries,
        Err(error) if error.kind == DiskErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let objects = entries
        .iter()
        .filter_map(|entry| match parse_file_name(&entry.name) {
            Some((id, 0)) => Some(id),
            _ => None,
        });
    Ok(objects.collect())
}
