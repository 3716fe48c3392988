//! Several calls beside each other, on the caller's task.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// All results, in the order of `futures`. Every future is polled when any of them wakes: meant for the few pieces of
/// one request, not for thousands.
pub fn all<F: Future>(futures: Vec<F>) -> All<F> {
    All {
        running: futures
            .into_iter()
            .map(|f| Slot::Running(Box::pin(f)))
            .collect(),
    }
}

pub struct All<F: Future> {
    running: Vec<Slot<F>>,
}

enum Slot<F: Future> {
    Running(Pin<Box<F>>),
    Done(Option<F::Output>),
}

impl<F: Future> Future for All<F>
where
    F::Output: Unpin,
{
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<F::Output>> {
        let mut pending = false;
        for slot in &mut self.running {
            if let Slot::Running(future) = slot {
                match future.as_mut().poll(cx) {
                    Poll::Ready(output) => *slot = Slot::Done(Some(output)),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending {
            return Poll::Pending;
        }
        let outputs = self.running.iter_mut().filter_map(|slot| match slot {
            Slot::Done(output) => output.take(),
            Slot::Running(_) => None,
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
