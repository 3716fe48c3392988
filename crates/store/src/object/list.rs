//! list: returns the objects of a target in ascending order.

use super::Objects;
use super::limits::{INODES_PER_DIR, LIST_MAX, SEGMENT};
use super::paths::{OBJECTS_DIR, dir_path, file_path, first_inode_of_dir, parse_file_name};
use super::target::Target;
use gupfs_platform::{Disk, DiskError, DiskErrorKind};
use gupfs_proto::cluster::ObjectInventory;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::{FsError, ObjectId, OwnerEpoch};
use std::collections::BTreeMap;

impl Objects {
    /// At most `limit` objects after the given one; fewer than requested (and than `LIST_MAX`) only at the end.
    pub async fn list(
        &self,
        after: Option<ObjectId>,
        limit: u32,
    ) -> Result<Vec<(ObjectId, ObjectStat)>, FsError> {
        let target = self.readable()?;
        let _operation = target.counters.enter(&target.counters.looks);
        let limit = (limit as usize).min(LIST_MAX);
        let ids = ids_after(&target.disk, after, limit).await;
        let ids = ids.map_err(|error| FsError::StoreFailed(super::error::error_chain(&error)))?;
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            // None: the object was removed since the listing.
            if let Some(stat) = target.stat_uncached(id).await? {
                found.push((id, stat));
            }
        }
        Ok(found)
    }
}

impl Objects {
    /// The objects that owners after epoch `since` created, and the highest inode numbers in use.
    pub async fn inventory(&self, since: OwnerEpoch) -> Result<ObjectInventory, FsError> {
        let target = self.readable()?;
        let inventory = inventory(&target.disk, since).await;
        inventory.map_err(|error| FsError::StoreFailed(super::error::error_chain(&error)))
    }
}

async fn inventory(disk: &Disk, since: OwnerEpoch) -> Result<ObjectInventory, DiskError> {
    let mut inventory = ObjectInventory {
        since,
        ..ObjectInventory::default()
    };
    let mut numbers = BTreeMap::new();
    for dir in object_dirs(disk).await? {
        if let Some(first) = first_inode_of_dir(&dir) {
            let above = first.counter() + INODES_PER_DIR;
            let highest = numbers.entry(first.shard()).or_insert(above);
            *highest = above.max(*highest);
        }
        for id in objects_in(disk, &dir).await? {
            if id.generation.window() <= since {
                continue;
            }
            inventory.newer_objects += 1;
            if let Some(stat) = disk.stat(&file_path(id, 0)).await? {
                inventory.newest = inventory.newest.max(Some(stat.mtime));
            }
        }
    }
    inventory.inode_counters = numbers.into_iter().collect();
    Ok(inventory)
}

impl Target {
    /// Stats an object on disk without loading it, so that a pass over all objects does not evict those in use.
    async fn stat_uncached(&self, id: ObjectId) -> Result<Option<ObjectStat>, FsError> {
        let found = self.disk.stat(&file_path(id, 0)).await;
        match found.map_err(|error| self.fs_error(id, &error))? {
            None => Ok(None),
            Some(first) if first.len < SEGMENT => Ok(Some(ObjectStat {
                size: first.len,
                blocks: first.allocated / 512,
                mtime: first.mtime,
            })),
            Some(_) => {
                let object = self.load_object(id).await?;
                let state = object.state();
                Ok(state.exists().then(|| state.stat()))
            }
        }
    }
}

/// The next objects by their names on disk.
pub(super) async fn ids_after(
    disk: &Disk,
    after: Option<ObjectId>,
    limit: usize,
) -> Result<Vec<ObjectId>, DiskError> {
    let mut found = Vec::new();
    // Names have equal length, so their order is the order of inodes.
    let from = after.map(|id| dir_path(id)[OBJECTS_DIR.len() + 1..].to_owned());
    for dir in object_dirs(disk).await? {
        if from.as_ref().is_some_and(|from| dir < *from) {
            continue;
        }
        let mut here = objects_in(disk, &dir).await?;
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

/// The number of objects.
pub(super) async fn count(disk: &Disk) -> Result<u64, DiskError> {
    let mut count = 0;
    for dir in object_dirs(disk).await? {
        count += objects_in(disk, &dir).await?.len() as u64;
    }
    Ok(count)
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
