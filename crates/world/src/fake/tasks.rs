//! The tasks of one simulated process, which end together.

use parking_lot::Mutex;
use std::sync::Arc;
use tokio::task::AbortHandle;

#[derive(Clone, Default)]
pub struct FakeTasks(Arc<Mutex<Vec<AbortHandle>>>);

impl FakeTasks {
    pub fn new() -> FakeTasks {
        FakeTasks::default()
    }

    /// Ends every task of the process. They are dropped when the runtime gets its next turn: kill the disk first, so
    /// that nothing they do in `Drop` reaches it.
    pub fn kill(&self) {
        for task in self.0.lock().drain(..) {
            task.abort();
        }
    }

    /// How many tasks run.
    pub fn running(&self) -> usize {
        let mut tasks = self.0.lock();
        tasks.retain(|task| !task.is_finished());
        tasks.len()
    }

    pub(crate) fn remember(&self, task: AbortHandle) {
        let mut tasks = self.0.lock();
        // Keeps the list short without walking it at every spawn.
        if tasks.len().is_power_of_two() {
            tasks.retain(|task| !task.is_finished());
        }
        tasks.push(task);
    }
}
