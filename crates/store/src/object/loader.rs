//! Loads objects: their state in memory from their files and their record.

use super::damage_list::DamageList;
use super::files::ObjectFiles;
use super::object::Object;
use super::records::Records;
use super::syncer::ObjectSyncer;
use super::table::ObjectTable;
use gupfs_proto::data::ObjectExistence;
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::{FsError, ObjectId};
use std::sync::Arc;

pub(super) struct ObjectLoader {
    table: Arc<ObjectTable>,
    files: Arc<ObjectFiles>,
    records: Arc<Records>,
    syncer: Arc<ObjectSyncer>,
    damage: Arc<DamageList>,
}

impl ObjectLoader {
    pub fn new(
        table: Arc<ObjectTable>,
        files: Arc<ObjectFiles>,
        records: Arc<Records>,
        syncer: Arc<ObjectSyncer>,
        damage: Arc<DamageList>,
    ) -> ObjectLoader {
        ObjectLoader {
            table,
            files,
            records,
            syncer,
            damage,
        }
    }

    /// The object, loaded from disk, whether or not it exists there.
    pub async fn load_object(&self, id: ObjectId) -> Result<Arc<Object>, FsError> {
        self.syncer.sync_if_many_open().await?;
        let object = self.table.get(id);
        self.load(&object).await?;
        Ok(object)
    }

    /// The same, but fails with `Missing` if the object does not exist although the requester or the object's record
    /// says that it does.
    pub async fn expect_object(
        &self,
        id: ObjectId,
        existing: ObjectExistence,
    ) -> Result<Arc<Object>, FsError> {
        let object = self.load_object(id).await?;
        let lost = {
            let state = object.state();
            let had_bytes = state.regions.end() > 0;
            !state.exists() && (existing == ObjectExistence::MustExist || had_bytes)
        };
        match lost {
            true => Err(self.damage.report(id, ObjectDamage::Missing)),
            false => Ok(object),
        }
    }

    /// Loads files and record from disk. State in memory that reaches further stays, since others may be writing.
    pub async fn load(&self, object: &Object) -> Result<(), FsError> {
        if object.state().loaded {
            return Ok(());
        }
        let _guard = object.files_lock.lock().await;
        if object.state().loaded {
            return Ok(());
        }
        let found = self.files.stat_segments(object.id).await;
        let found = found.map_err(|error| self.damage.fs_error(object.id, &error))?;
        let known = object.state().regions.record;
        // A record in memory is newer than the one on disk.
        let record = match known {
            Some(record) => Some(record),
            None => self.records.object(object.id)?,
        };
        let mut state = object.state();
        state
            .segments
            .retain(|number, _| found.contains_key(number));
        for (number, stat) in found {
            state.mtime = state.mtime.max(stat.mtime);
            let segment = state.segments.entry(number).or_default();
            segment.len = segment.len.max(stat.len);
            segment.blocks = stat.allocated / 512;
        }
        if let Some(record) = record {
            state.owner = record.owner;
        }
        state.regions.record = record;
        state.loaded = true;
        Ok(())
    }
}
