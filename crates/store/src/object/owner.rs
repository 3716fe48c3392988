//! owner: the owner of an object as its record states it, for a caller that lost the inode.

use super::Objects;
use gupfs_proto::data::ObjectOwner;
use gupfs_proto::{FsError, ObjectId};

impl Objects {
    /// None if the object has no record, because its checksums were never flushed.
    ///
    /// # Errors
    /// `TargetDown` if the target is closed or not adopted, or its records cannot be read.
    pub async fn owner(&self, id: ObjectId) -> Result<Option<ObjectOwner>, FsError> {
        let target = self.serving()?;
        let counters = &target.reading.counters;
        let _operation = counters.enter(&counters.looks);
        let record = target.records.object(id)?;
        Ok(record.map(|record| record.owner))
    }
}
