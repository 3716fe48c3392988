//! Runs several calls concurrently on the caller's task.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// All results, in the order of `futures`. Every future is polled when any of them wakes: meant for the few chunks of one
/// request, not for thousands.
pub fn all<F: Future>(futures: Vec<F>) -> JoinAll<F> {
    JoinAll {
        futures: futures
            .into_iter()
            .map(|f| JoinState::Running(Box::pin(f)))
            .collect(),
    }
}

pub struct JoinAll<F: Future> {
    futures: Vec<JoinState<F>>,
}

enum JoinState<F: Future> {
    Running(Pin<Box<F>>),
    Done(Option<F::Output>),
}

impl<F: Future> Future for JoinAll<F>
where
    F::Output: Unpin,
{
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<F::Output>> {
        let mut pending = false;
        for slot in &mut self.futures {
            if let JoinState::Running(future) = slot {
                match future.as_mut().poll(cx) {
                    Poll::Ready(output) => *slot = JoinState::Done(Some(output)),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending {
            return Poll::Pending;
        }
        let outputs = self.futures.iter_mut().filter_map(|slot| match slot {
            JoinState::Done(output) => output.take(),
            JoinState::Running(_) => None,
        });
        Poll::Ready(outputs.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn results_keep_their_order_and_the_waits_overlap() {
        let start = tokio::time::Instant::now();
        let naps = [30, 10, 20].map(|ms| async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            ms
        });
        assert_eq!(all(naps.into_iter().collect()).await, [30, 10, 20]);
        assert!(start.elapsed() < Duration::from_millis(40));
        assert_eq!(all(Vec::<std::future::Ready<u8>>::new()).await, [0u8; 0]);
    }
}
