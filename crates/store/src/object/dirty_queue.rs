//! Queue of objects with dirty regions, in the order in which they became dirty.

use super::object::Object;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Default)]
pub(super) struct DirtyQueue(Mutex<VecDeque<Arc<Object>>>);

impl DirtyQueue {
    pub fn push(&self, object: Arc<Object>) {
        self.0.lock().push_back(object);
    }

    pub fn pop(&self) -> Option<Arc<Object>> {
        self.0.lock().pop_front()
    }

    pub fn len(&self) -> usize {
        self.0.lock().len()
    }
}
