//! list: the objects there are, in ascending order.

use super::Objects;
use super::limits::{INODES_PER_DIR, LIST_MAX, SEGMENT};
use super::place::{TOP, dir_of, file_of, first_of_dir, parse};
use super::target::Target;
use gupfs_platform::{Disk, DiskError, DiskErrorKind};
use gupfs_proto::cluster::Holdings;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::{ObjectId, OwnerEpoch, Refusal};
use std::collections::BTreeMap;

impl Objects {
    /// At most `limit` objects after one of them; fewer than asked (and than `LIST_MAX`) only at the end.
    pub async fn list(
        &self,
        after: Option<ObjectId>,
        limit: u32,
    ) -> Result<Vec<(ObjectId, ObjectStat)>, Refusal> {
        let target = self.looking()?;
        let _under_way = target.counters.enter(&target.counters.looks);
        let limit = (limit as usize).min(LIST_MAX);
        let ids = ids_after(&target.disk, after, limit).await;
        let ids = ids.map_err(|error| Refusal::StoreFailed(super::error::told(&error)))?;
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            // Removed since the listing: not there.
            if let Some(stat) = target.stat_unremembered(id).await? {
                found.push((id, stat));
            }
        }
        Ok(found)
    }
}

impl Objects {
    /// What owners after `since` have made, and how far inode numbers reach.
    pub async fn holdings(&self, since: OwnerEpoch) -> Result<Holdings, Refusal> {
        let target = self.looking()?;
        let held = holdings(&target.disk, since).await;
        held.map_err(|error| Refusal::StoreFailed(super::error::told(&error)))
    }
}

async fn holdings(disk: &Disk, since: OwnerEpoch) -> Result<Holdings, DiskError> {
    let mut held = Holdings {
        since,
        ..Holdings::default()
    };
    let mut numbers = BTreeMap::new();
    for dir in object_dirs(disk).await? {
        if let Some(first) = first_of_dir(&dir) {
            let above = first.counter() + INODES_PER_DIR;
            let highest = numbers.entry(first.shard()).or_insert(above);
            *highest = above.max(*highest);
        }
        for id in objects_in(disk, &dir).await? {
            if id.generation.window() <= since {
                continue;
            }
            held.newer += 1;
            if let Some(stat) = disk.stat(&file_of(id, 0)).await? {
                held.newest = held.newest.max(Some(stat.mtime));
            }
        }
    }
    held.numbers = numbers.into_iter().collect();
    Ok(held)
}

impl Target {
    /// As the disk has it; a walk through all objects does not push those in use out of memory.
    async fn stat_unremembered(&self, id: ObjectId) -> Result<Option<ObjectStat>, Refusal> {
        let found = self.disk.stat(&file_of(id, 0)).await;
        match found.map_err(|error| self.refused(id, &error))? {
            None => Ok(None),
            Some(first) if first.len < SEGMENT => Ok(Some(ObjectStat {
                size: first.len,
                blocks: first.allocated / 512,
                mtime: first.mtime,
            })),
            Some(_) => {
                let object = self.object(id).await?;
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
    // Equal lengths: the order of names is the order of inodes.
    let from = after.map(|id| dir_of(id)[TOP.len() + 1..].to_owned());
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

/// How many objects there are.
pub(super) async fn count(disk: &Disk) -> Result<u64, DiskError> {
    let mut count = 0;
    for dir in object_dirs(disk).await? {
        count += objects_in(disk, &dir).await?.len() as u64;
    }
    Ok(count)
}

async fn object_dirs(disk: &Disk) -> Result<Vec<String>, DiskError> {
    let entries = disk.list(TOP).await?;
    let ours = entries
        .into_iter()
        .map(|entry| entry.name)
        .filter(|name| first_of_dir(name).is_some());
    Ok(ours.collect())
}

async fn objects_in(disk: &Disk, dir: &str) -> Result<Vec<ObjectId>, DiskError> {
    let entries = match disk.list(&format!("{TOP}/{dir}")).await {
        Ok(entries) => entries,
        Err(error) if error.kind == DiskErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let objects = entries.iter().filter_map(|entry| match parse(&entry.name) {
        Some((id, 0)) => Some(id),
        _ => None,
    });
    Ok(objects.collect())
}
