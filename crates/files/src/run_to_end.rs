//! Operations that run to their end: the client's futures must (crate `gupfs-client`, "Futures").

use crate::shared_session::SharedSession;
use gupfs_proto::FsError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

type Operation<T> = Pin<Box<dyn Future<Output = Result<T, FsError>> + Send>>;

/// The future of one operation. The operation goes on in the background if this is dropped, or if the call misses its deadline, which it
/// returns as `TimedOut`.
#[must_use = "an operation starts when its future is polled"]
pub struct RunToEnd<T: Send + 'static> {
    core: Arc<SharedSession>,
    /// None once it has ended, or goes on in the background.
    operation: Option<Operation<T>>,
    was_polled: bool,
    /// Made at the first poll that does not end the operation.
    deadline: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<T: Send + 'static> RunToEnd<T> {
    pub(crate) fn new(core: Arc<SharedSession>, operation: Operation<T>) -> RunToEnd<T> {
        RunToEnd {
            core,
            operation: Some(operation),
            was_polled: false,
            deadline: None,
        }
    }

    fn leave_in_background(&mut self) {
        if let Some(operation) = self.operation.take()
            && self.was_polled
        {
            self.core
                .spawn("operation whose caller has left", async move {
                    let _has_no_caller = operation.await;
                });
        }
    }
}

impl<T: Send + 'static> Future for RunToEnd<T> {
    type Output = Result<T, FsError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let operation = this.operation.as_mut().expect("polled after its end");
        this.was_polled = true;
        if let Poll::Ready(result) = operation.as_mut().poll(cx) {
            this.operation = None;
            return Poll::Ready(result);
        }
        let Some(time) = this.core.deadline else {
            return Poll::Pending;
        };
        let clock = &this.core.clock;
        let deadline = this.deadline.get_or_insert_with(|| {
            let clock = clock.clone();
            Box::pin(async move { clock.sleep(time).await })
        });
        if deadline.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        this.leave_in_background();
        Poll::Ready(Err(FsError::TimedOut(this.core.unreachable_servers())))
    }
}

impl<T: Send + 'static> Drop for RunToEnd<T> {
    fn drop(&mut self) {
        self.leave_in_background();
    }
}
