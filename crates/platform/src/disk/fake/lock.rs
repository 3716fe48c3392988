//! `FakeLock`: a held lock of one process.

use super::state::{Instance, State};
use parking_lot::Mutex;
use std::sync::Arc;

pub(crate) struct FakeLock {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) instance: Instance,
    pub(super) key: (u64, String),
}

impl Drop for FakeLock {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if state.locks.get(&self.key) == Some(&self.instance) {
            state.locks.remove(&self.key);
        }
    }
}
