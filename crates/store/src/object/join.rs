//! Runs several futures concurrently.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Runs the futures concurrently, at most `at_once` of them, until all are done or one fails; drops the others then.
pub(super) async fn join_all<E, F>(futures: Vec<F>, at_once: usize) -> Result<(), E>
where
    F: Future<Output = Result<(), E>>,
{
    let mut waiting = futures.into_iter();
    let mut running: Vec<Pin<Box<F>>> = waiting.by_ref().take(at_once).map(Box::pin).collect();
    poll_fn(|context| {
        let mut index = 0;
        while index < running.len() {
            match running[index].as_mut().poll(context) {
                Poll::Pending => index += 1,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => match waiting.next() {
                    // The next future takes the slot and is polled at once: without a first poll it would never wake
                    // this task.
                    Some(next) => running[index] = Box::pin(next),
                    None => drop(running.swap_remove(index)),
                },
            }
        }
        match running.is_empty() {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test]
    async fn all_futures_run_and_no_more_than_allowed_at_once() {
        let (now, most, done) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let one = |_| async {
            now.set(now.get() + 1);
            most.set(now.get().max(most.get()));
            tokio::task::yield_now().await;
            now.set(now.get() - 1);
            done.set(done.get() + 1);
            Ok::<(), ()>(())
        };
        join_all((0..10).map(one).collect(), 3).await.unwrap();
        assert_eq!((most.get(), done.get()), (3, 10));
    }

    #[tokio::test]
    async fn the_first_failure_ends_it() {
        let one = |n| async move { if n == 2 { Err(n) } else { Ok(()) } };
        assert_eq!(join_all((0..5).map(one).collect(), 8).await, Err(2));
    }
}
