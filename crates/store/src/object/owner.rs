//! owner: the owner of an object as its record states it, for a caller that lost the inode.

use super::Objects;
use gupfs_proto::data::ObjectOwner;
use gupfs_proto::{FsError, ObjectId};

impl Objects {
    /// None if the object has no record, because its checksums were never flushed.
    pub async fn owner(&self, id: ObjectId) -> Result<Option<ObjectOwner>, FsError> {
        let target = self.serving()?;
        let _operation = target.counters.enter(&target.counters.looks);
        match target.records.object(id) {
            Ok(record) => Ok(record.map(|record| record.owner)),
            Err(error) => Err(target.records_failed(&error)),
        }
    }
}
