//! What the operations of a target may use: those that read an object, and those that change one.

use super::counters::{Counters, ObjectCount};
use super::damage_list::DamageList;
use super::dirty_log::DirtyLog;
use super::files::ObjectFiles;
use super::flush_checksums::ChecksumFlusher;
use super::free_space::FreeSpace;
use super::listing::ObjectListing;
use super::loader::ObjectLoader;
use super::lost_found::LostFound;
use super::object::{ChangeGuard, Object};
use super::reader::ObjectReader;
use super::region_loader::RegionLoader;
use super::write_slots::WriteSlots;
use gupfs_platform::Clock;
use gupfs_proto::FsError;
use std::ops::Range;
use std::sync::Arc;

/// For operations that read. Nothing here changes a byte or a record of an object.
pub(super) struct ReadAccess {
    pub counters: Arc<Counters>,
    pub objects: Arc<ObjectLoader>,
    pub regions: Arc<RegionLoader>,
    pub reader: Arc<ObjectReader>,
    pub damage: Arc<DamageList>,
    pub listing: ObjectListing,
    pub free_space: Arc<FreeSpace>,
    pub lost_found: Arc<LostFound>,
    pub object_count: Arc<ObjectCount>,
}

/// For operations that change an object, its records or its files. Nothing here reaches the target's identity.
pub(super) struct WriteAccess {
    pub counters: Arc<Counters>,
    pub objects: Arc<ObjectLoader>,
    pub regions: Arc<RegionLoader>,
    pub dirty_log: DirtyLog,
    pub reader: Arc<ObjectReader>,
    pub files: Arc<ObjectFiles>,
    pub write_slots: Arc<WriteSlots>,
    pub flusher: Arc<ChecksumFlusher>,
    pub free_space: Arc<FreeSpace>,
    pub damage: Arc<DamageList>,
    pub clock: Clock,
}

impl WriteAccess {
    /// Begins a change of these bytes, and loads the object from disk if it is not loaded.
    pub async fn begin_change<'a>(
        &self,
        object: &'a Object,
        range: Range<u64>,
    ) -> Result<ChangeGuard<'a>, FsError> {
        tracing::trace!(target: "walk", file = file!(), "begin_change");
        let change = object.begin_change(range).await;
        // A change that failed leaves the object unloaded.
        self.objects.load(object).await?;
        Ok(change)
    }
}
