//! The call on whose behalf the current task works: a program's system call at a client.
//!
//! It goes with the task, not through every function between the mount and the request to a server: only those who begin a call and those who
//! send or measure something look at it. A task that was spawned has none unless its future went through `inherit`.

use gupfs_proto::JobId;
use std::future::Future;

/// A call of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CurrentCall {
    pub job: JobId,
}

tokio::task_local! {
    static CURRENT: CurrentCall;
}

impl CurrentCall {
    /// That of the current task; a call without a job outside of one.
    pub fn get() -> CurrentCall {
        CURRENT.try_with(|call| *call).unwrap_or_default()
    }

    /// Runs `work` on behalf of this call.
    pub fn scope<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, work)
    }

    /// Runs `work` in a task of its own on behalf of the current call.
    pub fn inherit<F: Future>(work: F) -> impl Future<Output = F::Output> {
        CurrentCall::get().scope(work)
    }

    /// Runs `work` on behalf of the current call; of this job if the current call has none.
    pub fn with_default_job<F: Future>(job: JobId, work: F) -> impl Future<Output = F::Output> {
        let mut call = CurrentCall::get();
        if call.job == JobId::UNKNOWN {
            call.job = job;
        }
        call.scope(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_goes_with_its_task_and_with_what_inherits_it() {
        let call = CurrentCall { job: JobId(7) };
        let spawned = call.scope(async {
            tokio::task::yield_now().await;
            let plain = tokio::spawn(async { CurrentCall::get() });
            let inherits = tokio::spawn(CurrentCall::inherit(async { CurrentCall::get() }));
            let other = CurrentCall::with_default_job(JobId(9), async { CurrentCall::get().job });
            (
                CurrentCall::get(),
                plain.await.unwrap(),
                inherits.await.unwrap(),
                other.await,
            )
        });
        assert_eq!(
            spawned.await,
            (call, CurrentCall::default(), call, JobId(7))
        );
        assert_eq!(CurrentCall::get(), CurrentCall::default());
        let defaulted = CurrentCall::with_default_job(JobId(9), async { CurrentCall::get().job });
        assert_eq!(defaulted.await, JobId(9));
    }
}
