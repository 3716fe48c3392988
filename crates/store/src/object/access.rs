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
use super::reader::ObjectReader;
use super::region_loader::RegionLoader;
use gupfs_platform::Clock;
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

/// For operations that change an object, its records or its files. Nothing here syncs or reads the superblock.
pub(super) struct WriteAccess {
    pub counters: Arc<Counters>,
    pub objects: Arc<ObjectLoader>,
    pub dirty_log: DirtyLog,
    pub reader: Arc<ObjectReader>,
    pub files: Arc<ObjectFiles>,
    pub flusher: Arc<ChecksumFlusher>,
    pub free_space: Arc<FreeSpace>,
    pub damage: Arc<DamageList>,
    pub clock: Clock,
}
