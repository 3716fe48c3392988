//! The tasks of one simulated process, which end together.

use parking_lot::Mutex;
use std::sync::Arc;
use tokio::task::AbortHandle;

#[derive(Clone, Default)]
pub struct FakeTasks(Arc<Mutex<Running>>);

#[derive(Default)]
struct Running {
    tasks: Vec<AbortHandle>,
    /// The process is gone: what somebody who still has a handle begins in it ends at once.
    dead: bool,
}

impl FakeTasks {
    pub fn new() -> FakeTasks {
        FakeTasks::default()
    }

    /// Ends every task of the process. They are dropped when the runtime gets its next turn: kill the disk first, so
    /// that nothing they do in `Drop` reaches it.
    pub fn kill(&self) {
        let mut running = self.0.lock();
        running.dead = true;
        for task in running.tasks.drain(..) {
            task.abort();
        }
    }

    /// How many tasks run.
    pub fn running(&self) -> usize {
        let mut running = self.0.lock();
        running.tasks.retain(|task| !task.is_finished());
        running.tasks.len()
    }

    pub(crate) fn remember(&self, task: AbortHandle) {
        let mut running = self.0.lock();
        if running.dead {
            task.abort();
            return;
        }
        let tasks = &mut running.tasks;
        // Keeps the list short without walking it at every spawn.
        if tasks.len().is_power_of_two() {
            tasks.retain(|task| !task.is_finished());
        }
        tasks.push(task);
    }
}

#[cfg(test)]
mod tests {
    use crate::fake::FakeWorld;

    #[tokio::test(start_paused = true)]
    async fn nothing_begins_in_a_process_that_is_gone() {
        let fake = FakeWorld::new(1);
        let tasks = fake.platform().tasks;
        assert_eq!(tasks.spawn("before", async { 1 }).await.ok(), Some(1));
        let runs = tasks.spawn("under way", std::future::pending::<()>());
        fake.tasks.kill();
        assert!(runs.await.is_err());
        assert!(tasks.spawn("late", async {}).await.is_err());
        assert_eq!(fake.tasks.running(), 0);
    }
}
