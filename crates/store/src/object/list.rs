//! list: returns the objects of a target in ascending order.

use super::Objects;
use super::access::ReadAccess;
use super::error::error_chain;
use super::limits::{LIST_MAX, SEGMENT};
use gupfs_proto::cluster::ObjectInventory;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::{FsError, ObjectId, OwnerEpoch};

impl Objects {
    /// At most `limit` objects after the given one; fewer than requested (and than `LIST_MAX`) only at the end.
    ///
    /// # Errors
    /// `TargetDown` if the target is closed, `StoreFailed` if a directory cannot be read.
    pub async fn list(
        &self,
        after: Option<ObjectId>,
        limit: u32,
    ) -> Result<Vec<(ObjectId, ObjectStat)>, FsError> {
        let access = self.readable()?;
        let _operation = access.counters.enter(&access.counters.looks);
        let limit = (limit as usize).min(LIST_MAX);
        let ids = access.listing.ids_after(after, limit).await;
        let ids = ids.map_err(|error| FsError::StoreFailed(error_chain(&error)))?;
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            // None: the object was removed since the listing.
            if let Some(stat) = stat_uncached(access, id).await? {
                found.push((id, stat));
            }
        }
        Ok(found)
    }

    /// The objects that owners after epoch `since` created, and the highest inode numbers in use.
    ///
    /// # Errors
    /// `TargetDown` if the target is closed, `StoreFailed` if a directory cannot be read.
    pub async fn inventory(&self, since: OwnerEpoch) -> Result<ObjectInventory, FsError> {
        let inventory = self.readable()?.listing.inventory(since).await;
        inventory.map_err(|error| FsError::StoreFailed(error_chain(&error)))
    }
}

/// Stats an object on disk without loading it, so that a pass over all objects does not evict those in use.
async fn stat_uncached(access: &ReadAccess, id: ObjectId) -> Result<Option<ObjectStat>, FsError> {
    let found = access.listing.stat_first_segment(id).await;
    match found.map_err(|error| access.damage.fs_error(id, &error))? {
        None => Ok(None),
        Some(first) if first.len < SEGMENT => Ok(Some(ObjectStat {
            size: first.len,
            blocks: first.allocated / 512,
            mtime: first.mtime,
        })),
        Some(_) => {
            let object = access.objects.load_object(id).await?;
            let state = object.state();
            Ok(state.exists().then(|| state.stat()))
        }
    }
}
