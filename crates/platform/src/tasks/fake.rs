//! The tasks of one simulated process; killing the process ends all of them, freezing it stops them until it is thawed.

use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::task::AbortHandle;

#[derive(Clone, Default)]
pub struct FakeTasks(Arc<Mutex<Running>>);

#[derive(Default)]
struct Running {
    tasks: Vec<AbortHandle>,
    /// The process was killed: a task that is started through a remaining handle ends at once.
    dead: bool,
    /// SIGSTOP: no task runs until the process is thawed. What wakes a task meanwhile (a timer, a message) is noticed then.
    frozen: bool,
    /// The tasks that would have run.
    stopped: Vec<Waker>,
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

    /// Stops the process until `thaw`: its clock, its connections and its disk go on.
    pub fn freeze(&self) {
        self.0.lock().frozen = true;
    }

    /// The process goes on.
    pub fn thaw(&self) {
        let stopped = {
            let mut running = self.0.lock();
            running.frozen = false;
            std::mem::take(&mut running.stopped)
        };
        stopped.into_iter().for_each(Waker::wake);
    }

    pub fn is_frozen(&self) -> bool {
        self.0.lock().frozen
    }

    /// The same future as a part of this process: it does not run while the process is frozen. For a call into the process from
    /// a task that is none of its own.
    pub fn within<F: Future>(&self, future: F) -> WithinProcess<F> {
        WithinProcess {
            process: self.clone(),
            future: Box::pin(future),
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

/// A future that runs only while its process is not frozen.
pub struct WithinProcess<F> {
    process: FakeTasks,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for WithinProcess<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        {
            let mut running = self.process.0.lock();
            if running.frozen {
                running.stopped.push(cx.waker().clone());
                return Poll::Pending;
            }
        }
        self.future.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use crate::fake::FakePlatform;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_frozen_process_does_nothing_until_it_is_thawed() {
        let fake = FakePlatform::new(1);
        let platform = fake.platform();
        let clock = platform.clock.clone();
        let woken = platform.tasks.spawn("sleeps a second", async move {
            clock.sleep(Duration::from_secs(1)).await;
            clock.boot()
        });
        tokio::task::yield_now().await;
        fake.tasks.freeze();
        let called = fake.tasks.within(async { fake.clock.boot() });
        let thaw = async {
            fake.clock.sleep_until(crate::BootTime(9_000_000_000)).await;
            assert!(!woken.is_finished() && fake.tasks.is_frozen());
            fake.tasks.thaw();
        };
        let (called, ()) = tokio::join!(called, thaw);
        let woken = woken.await.ok();
        assert!(
            Some(called) == woken && called.0 >= 9_000_000_000,
            "{woken:?}"
        );
    }

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
