//! The tasks of one simulated process; killing the process ends all of them.

use parking_lot::Mutex;
use std::sync::Arc;
use tokio::task::AbortHandle;

#[derive(Clone, Default)]
pub struct FakeTasks(Arc<Mutex<Running>>);

#[derive(Default)]
struct Running {
    tasks: Vec<AbortHandle>,
    /// The process was killed: a task that is started through a remaining handle ends at once.
    dead: bool,
}

impl FakeTasks {
    pub fn new() -> FakeTasks {
        FakeTasks::default()
    }

    /// Cancels all tasks of the process. The runtime drops them when it runs next: kill the disk first, so that their `Drop`
    /// implementations cannot write to it.
    pub fn kill(&self) {
        let mut running = self.0.lock();
        running.dead = true;
        for task in running.tasks.drain(..) {
            task.abort();
        }
    }

    /// Number of running tasks.
    pub fn running(&self) -> usize {
        let mut running = self.0.lock();
        running.tasks.retain(|task| !task.is_finished());
        running.tasks.len()
    }

    pub(crate) fn register(&self, task: AbortHandle) {
        let mut running = self.0.lock();
        if running.dead {
            task.abort();
            return;
        }
        let tasks = &mut running.tasks;
        // Keeps the list short without scanning it at every spawn.
        if tasks.len().is_power_of_two() {
            tasks.retain(|task| !task.is_finished());
        }
        tasks.push(task);
    }
}

#[cfg(test)]
mod tests {
    use crate::fake::FakePlatform;

    #[tokio::test(start_paused = true)]
    async fn a_killed_process_starts_no_tasks() {
        let fake = FakePlatform::new(1);
        let tasks = fake.platform().tasks;
        assert_eq!(tasks.spawn("before", async { 1 }).await.ok(), Some(1));
        let runs = tasks.spawn("under way", std::future::pending::<()>());
        fake.tasks.kill();
        assert!(runs.await.is_err());
        assert!(tasks.spawn("late", async {}).await.is_err());
        assert_eq!(fake.tasks.running(), 0);
    }
}
