//! Queue of objects with dirty regions, in the order in which they became dirty.

use super::object::{Object, ObjectState};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) struct DirtyQueue {
    objects: Mutex<VecDeque<Arc<Object>>>,
    /// Number of dirty regions in memory, of all objects.
    regions: Arc<AtomicUsize>,
}

impl DirtyQueue {
    /// `regions` counts the dirty regions of all objects.
    pub fn new(regions: Arc<AtomicUsize>) -> DirtyQueue {
        DirtyQueue {
            objects: Mutex::default(),
            regions,
        }
    }

    /// Queues an object that has dirty regions for the checksum flush.
    pub fn push_if_dirty(&self, object: &Arc<Object>, state: &mut ObjectState) {
        if !state.queued && state.regions.has_dirty() {
            state.queued = true;
            self.push(Arc::clone(object));
        }
    }

    pub fn push(&self, object: Arc<Object>) {
        self.objects.lock().push_back(object);
    }

    pub fn pop(&self) -> Option<Arc<Object>> {
        self.objects.lock().pop_front()
    }

    pub fn len(&self) -> usize {
        self.objects.lock().len()
    }

    /// Number of dirty regions in memory.
    pub fn regions(&self) -> usize {
        self.regions.load(Ordering::Relaxed)
    }
}
