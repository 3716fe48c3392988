//! owner: whose an object is, as its record says, for whoever lost the inode.

use super::Objects;
use gupfs_proto::data::Owner;
use gupfs_proto::{ObjectId, Refusal};

impl Objects {
    /// None if the object has no record: it was made and never settled.
    pub async fn owner(&self, id: ObjectId) -> Result<Option<Owner>, Refusal> {
        let target = self.serving()?;
        let _under_way = target.counters.enter(&target.counters.looks);
        match target.records.object(id) {
            Ok(record) => Ok(record.map(|record| record.owner)),
            Err(error) => Err(target.records_failed(&error)),
        }
    }
}
