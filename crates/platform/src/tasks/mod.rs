//! Tasks and threads: only this module starts any, so that a simulation knows all tasks.
#![allow(clippy::disallowed_methods)] // the other crates must use this module instead

#[cfg(feature = "fake")]
pub(crate) mod fake;

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
    Fake(fake::FakeTasks),
}

/// The reason why a task returned no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TaskError {
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
    pub fn fake(fake: fake::FakeTasks) -> Tasks {
        Tasks(Source::Fake(fake))
    }

    /// Runs `future` as a task on the runtime of the calling thread.
    ///
    /// # Panics
    /// When the calling thread has no runtime.
    pub fn spawn<F>(&self, name: &'static str, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let future = future.instrument(tracing::debug_span!("task", name));
        match &self.0 {
            Source::Real => Task(tokio::spawn(future)),
            #[cfg(feature = "fake")]
            Source::Fake(fake) => {
                let handle = tokio::spawn(fake.within(future));
                fake.register(handle.abort_handle());
                Task(handle)
            }
        }
    }

    /// Starts a thread, for code that never ends and blocks in the kernel (FUSE readers, notifications).
    ///
    /// # Errors
    /// The system's error if it has no resources for another thread.
    pub fn spawn_thread<T: Send + 'static>(
        &self,
        name: impl Into<String>,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<std::thread::JoinHandle<T>> {
        match &self.0 {
            Source::Real => std::thread::Builder::new().name(name.into()).spawn(run),
            #[cfg(feature = "fake")]
            Source::Fake(_) => panic!(
                "a simulated process has no threads, but something starts the thread '{}'",
                name.into()
            ),
        }
    }

    /// Runs code that may block in the kernel on the thread pool; in a simulation, on the calling thread. If the returned future
    /// is dropped meanwhile, `run` still runs to its end.
    pub async fn blocking<T: Send + 'static>(&self, run: impl FnOnce() -> T + Send + 'static) -> T {
        match &self.0 {
            Source::Real => run_on_pool(run).await,
            #[cfg(feature = "fake")]
            Source::Fake(_) => run(),
        }
    }
}

/// Runs `run` on the pool of threads that may block in the kernel.
pub(crate) async fn run_on_pool<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(run).await {
        Ok(result) => result,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // A closure on the pool that has started is never cancelled. One that has not started is cancelled only when the
            // runtime shuts down, and then no task polls this future again.
            Err(_) => std::future::pending().await,
        },
    }
}

/// The same without a result: the caller does not wait.
pub(crate) fn spawn_on_pool(run: impl FnOnce() + Send + 'static) {
    drop(tokio::task::spawn_blocking(run));
}

/// A running task. It continues after this is dropped; awaiting this returns its result.
pub struct Task<T>(tokio::task::JoinHandle<T>);

impl<T> Task<T> {
    /// Cancels the task: the runtime drops its future at its next await.
    pub fn stop(&self) {
        self.0.abort();
    }

    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_err(|ended| {
            if ended.is_panic() {
                TaskError::Panicked
            } else {
                TaskError::Stopped
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_returns_its_result_and_a_stopped_task_an_error() {
        let tasks = Tasks::real();
        assert_eq!(tasks.spawn("seven", async { 7 }).await, Ok(7));
        let idle = tasks.spawn("idle", std::future::pending::<()>());
        idle.stop();
        assert_eq!(idle.await, Err(TaskError::Stopped));
    }

    #[tokio::test]
    async fn blocking_work_runs_on_another_thread() {
        let here = std::thread::current().id();
        let there = Tasks::real().blocking(|| std::thread::current().id()).await;
        assert_ne!(here, there);
    }
}
