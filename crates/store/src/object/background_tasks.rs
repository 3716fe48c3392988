//! The running background tasks of a target; dropping this stops them.

use gupfs_platform::Task;
use parking_lot::Mutex;

#[derive(Default)]
pub(super) struct BackgroundTasks(Mutex<Vec<Task<()>>>);

impl BackgroundTasks {
    pub fn set(&self, tasks: Vec<Task<()>>) {
        *self.0.lock() = tasks;
    }

    pub fn stop(&self) {
        for task in self.0.lock().drain(..) {
            task.stop();
        }
    }
}

impl Drop for BackgroundTasks {
    fn drop(&mut self) {
        self.stop();
    }
}
