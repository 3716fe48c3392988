//! The objects in memory and their open files, both bounded.

use super::object::Object;
use super::second_chance::{SecondChance, Verdict};
use gupfs_platform::hash::Map;
use gupfs_proto::ObjectId;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) struct Table {
    dirty: Arc<AtomicUsize>,
    objects: Mutex<Known>,
    open: Mutex<SecondChance<(ObjectId, u32)>>,
    /// At so many open files all are to be synced, so that some can be closed.
    many_open: usize,
}

struct Known {
    map: Map<ObjectId, Arc<Object>>,
    kept: SecondChance<ObjectId>,
}

impl Table {
    /// Half of `open_files` may rest open. `dirty` counts the dirty regions of all objects.
    pub fn new(objects: usize, open_files: usize, dirty: Arc<AtomicUsize>) -> Table {
        Table {
            dirty,
            objects: Mutex::new(Known {
                map: Map::default(),
                kept: SecondChance::new(objects),
            }),
            open: Mutex::new(SecondChance::new(open_files / 2)),
            many_open: open_files,
        }
    }

    /// The object of this id, whether or not it exists on disk.
    pub fn get(&self, id: ObjectId) -> Arc<Object> {
        let mut known = self.objects.lock();
        let Known { map, kept } = &mut *known;
        if let Some(object) = map.get(&id) {
            object.touch();
            return Arc::clone(object);
        }
        let object = Arc::new(Object::new(id, &self.dirty));
        map.insert(id, Arc::clone(&object));
        kept.keep(id, |id| {
            let may_go = |object: &Arc<Object>| {
                // Handles are cloned under this lock only, so a count of one stays one.
                !object.used.swap(false, Ordering::Relaxed)
                    && Arc::strong_count(object) == 1
                    && object.is_settled()
            };
            match map.get(id) {
                Some(object) if !may_go(object) => Verdict::Stays,
                _ => {
                    map.remove(id);
                    Verdict::Gone
                }
            }
        });
        object
    }

    /// Without remembering one that is not there.
    pub fn peek(&self, id: ObjectId) -> Option<Arc<Object>> {
        self.objects.lock().map.get(&id).cloned()
    }

    /// All that are remembered.
    pub fn all(&self) -> Vec<Arc<Object>> {
        self.objects.lock().map.values().cloned().collect()
    }

    /// Counts a file that was opened, and closes others if there are too many.
    pub fn opened(&self, id: ObjectId, segment: u32) {
        let mut open = self.open.lock();
        open.keep((id, segment), |(id, segment)| {
            self.close_unused(*id, *segment)
        });
    }

    pub fn open_files(&self) -> usize {
        self.open.lock().len()
    }

    pub fn has_many_open(&self) -> bool {
        self.open_files() >= self.many_open
    }

    /// Closes some: the process has no descriptors left.
    pub fn close_some(&self) {
        let mut open = self.open.lock();
        let half = open.len() / 2;
        open.evict(half, |(id, segment)| self.close_unused(*id, *segment));
    }

    /// A file with unsynced bytes stays open, and so does one that is being changed: a write-back that fails is told for sure
    /// only to a descriptor that was open when it did.
    fn close_unused(&self, id: ObjectId, segment: u32) -> Verdict {
        let Some(object) = self.peek(id) else {
            return Verdict::Gone;
        };
        let mut state = object.state();
        // In this order: a change that ended before is unsynced by now, unless it was synced since.
        let synced = state.flight.is_idle() && object.data.is_synced();
        match state.segments.get_mut(&segment) {
            Some(segment) if segment.used || !synced => {
                segment.used = false;
                Verdict::Stays
            }
            Some(segment) => {
                segment.file = None;
                Verdict::Gone
            }
            None => Verdict::Gone,
        }
    }
}
