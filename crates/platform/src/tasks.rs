//! Tasks and threads: the only place that starts any, so that a simulation has none it does not know of.
#![allow(clippy::disallowed_methods)] // this is the place the other rooms are sent to

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tracing::Instrument;

/// Starts the tasks of one process.
#[derive(Clone)]
pub struct Tasks(Source);

#[derive(Clone)]
enum Source {
    Real,
    #[cfg(feature = "fake")]
    Fake(crate::fake::FakeTasks),
}

/// Why a task gave no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TaskEnded {
    #[error("the task was stopped")]
    Stopped,
    #[error("the task panicked")]
    Panicked,
}

impl Tasks {
    pub fn real() -> Tasks {
        Tasks(Source::Real)
    }

    #[cfg(feature = "fake")]
    pub fn fake(fake: crate::fake::FakeTasks) -> Tasks {
        Tasks(Source::Fake(fake))
    }

    /// Runs `future` beside its starter, on the runtime of the calling thread.
    ///
    /// # Panics
    /// When the calling thread has no runtime.
    pub fn spawn<F>(&self, name: &'static str, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let handle = tokio::spawn(future.instrument(tracing::debug_span!("task", name)));
        #[cfg(feature = "fake")]
        if let Source::Fake(fake) = &self.0 {
            fake.remember(handle.abort_handle());
        }
        Task(handle)
    }

    /// A thread of its own, for what never ends and waits in the kernel (FUSE readers, notifications).
    pub fn spawn_thread<T: Send + 'static>(
        &self,
        name: impl Into<String>,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<std::thread::JoinHandle<T>> {
        match &self.0 {
            Source::Real => std::thread::Builder::new().name(name.into()).spawn(run),
            #[cfg(feature = "fake")]
            Source::Fake(_) => panic!(
                "a simulated process has no threads, yet one wants '{}'",
                name.into()
            ),
        }
    }

    /// Runs what may wait in the kernel away from the reactor; in a simulation, at once and here. If the caller is
    /// dropped meanwhile, `run` still runs to its end.
    pub async fn blocking<T: Send + 'static>(&self, run: impl FnOnce() -> T + Send + 'static) -> T {
        match &self.0 {
            Source::Real => on_pool(run).await,
            #[cfg(feature = "fake")]
            Source::Fake(_) => run(),
        }
    }
}

/// The pool of threads that may wait in the kernel.
pub(crate) async fn on_pool<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(run).await {
        Ok(result) => result,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Closures on the pool are never cancelled once begun; unbegun ones only when the runtime goes, and
            // then the task that awaits here is not polled again.
            Err(_) => std::future::pending().await,
        },
    }
}

/// The same, and nobody waits for it.
pub(crate) fn left_to_pool(run: impl FnOnce() + Send + 'static) {
    drop(tokio::task::spawn_blocking(run));
}

/// A running task. Dropping this lets it run on; awaiting it gives its result.
pub struct Task<T>(tokio::task::JoinHandle<T>);

impl<T> Task<T> {
    /// Drops the task's future at its next await.
    pub fn stop(&self) {
        self.0.abort();
    }

    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskEnded>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_err(|ended| {
            if ended.is_panic() {
                TaskEnded::Panicked
            } else {
                TaskEnded::Stopped
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_gives_its_result_and_a_stopped_one_says_so() {
        let tasks = Tasks::real();
        assert_eq!(tasks.spawn("seven", async { 7 }).await, Ok(7));
        let idle = tasks.spawn("idle", std::future::pending::<()>());
        idle.stop();
        assert_eq!(idle.await, Err(TaskEnded::Stopped));
    }

    #[tokio::test]
    async fn blocking_work_runs_on_another_thread() {
        let here = std::thread::current().id();
        let there = Tasks::real().blocking(|| std::thread::current().id()).await;
        assert_ne!(here, there);
    }
}
