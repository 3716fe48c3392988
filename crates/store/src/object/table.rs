//! The objects in memory and their open files, both bounded.

use super::clock_cache::{ClockCache, Eviction};
use super::object::Object;
use gupfs_platform::hash::Map;
use gupfs_proto::ObjectId;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) struct ObjectTable {
    dirty_regions: Arc<AtomicUsize>,
    objects: Mutex<CachedObjects>,
    open_files: Mutex<ClockCache<(ObjectId, u32)>>,
    /// At this many open files the target syncs all, so that it can close some.
    open_files_max: usize,
}

struct CachedObjects {
    map: Map<ObjectId, Arc<Object>>,
    clock: ClockCache<ObjectId>,
}

impl ObjectTable {
    /// Up to half of `open_files` stay open unused. `dirty` counts the dirty regions of all objects.
    pub fn new(objects: usize, open_files: usize, dirty_regions: Arc<AtomicUsize>) -> ObjectTable {
        ObjectTable {
            dirty_regions,
            objects: Mutex::new(CachedObjects {
                map: Map::default(),
                clock: ClockCache::new(objects),
            }),
            open_files: Mutex::new(ClockCache::new(open_files / 2)),
            open_files_max: open_files,
        }
    }

    /// The object of this id, whether or not it exists on disk.
    pub fn get(&self, id: ObjectId) -> Arc<Object> {
        let mut known = self.objects.lock();
        let CachedObjects { map, clock } = &mut *known;
        if let Some(object) = map.get(&id) {
            object.mark_used();
            return Arc::clone(object);
        }
        let object = Arc::new(Object::new(id, &self.dirty_regions));
        map.insert(id, Arc::clone(&object));
        clock.insert(id, |id| {
            let may_go = |object: &Arc<Object>| {
                // Handles are cloned under this lock only, so a count of one stays one.
                !object.used.swap(false, Ordering::Relaxed)
                    && Arc::strong_count(object) == 1
                    && object.is_evictable()
            };
            match map.get(id) {
                Some(object) if !may_go(object) => Eviction::Kept,
                _ => {
                    map.remove(id);
                    Eviction::Evicted
                }
            }
        });
        object
    }

    /// The object, if it is in memory; does not add it.
    pub fn peek(&self, id: ObjectId) -> Option<Arc<Object>> {
        self.objects.lock().map.get(&id).cloned()
    }

    /// All objects in memory.
    pub fn all(&self) -> Vec<Arc<Object>> {
        self.objects.lock().map.values().cloned().collect()
    }

    /// Counts a file that was opened, and closes others if there are too many.
    pub fn note_opened(&self, id: ObjectId, segment: u32) {
        let mut open = self.open_files.lock();
        open.insert((id, segment), |(id, segment)| {
            self.close_unused(*id, *segment)
        });
    }

    pub fn open_files(&self) -> usize {
        self.open_files.lock().len()
    }

    pub fn has_too_many_open(&self) -> bool {
        self.open_files() >= self.open_files_max
    }

    /// Closes up to half of the open files, because the process has no descriptors left.
    pub fn close_half(&self) {
        let mut open = self.open_files.lock();
        let half = open.len() / 2;
        open.evict(half, |(id, segment)| self.close_unused(*id, *segment));
    }

    /// Closes a file unless it has unsynced bytes or is being changed: the kernel reliably reports a failed write-back
    /// only to descriptors that were open when it failed.
    fn close_unused(&self, id: ObjectId, segment: u32) -> Eviction {
        let Some(object) = self.peek(id) else {
            return Eviction::Evicted;
        };
        let mut state = object.state();
        // In this order: a change that ended before the first check counts as unsynced in the second, unless it was
        // synced since.
        let synced = state.in_flight.is_idle() && object.data_sync.is_synced();
        match state.segments.get_mut(&segment) {
            Some(segment) if segment.used || !synced => {
                segment.used = false;
                Eviction::Kept
            }
            Some(segment) => {
                segment.file = None;
                Eviction::Evicted
            }
            None => Eviction::Evicted,
        }
    }
}
