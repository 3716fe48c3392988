//! Runs several requests concurrently, at most a given number at a time.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

/// The outputs of the futures, in the order of the futures.
pub async fn all<F: Future>(futures: Vec<F>, at_once: usize) -> Vec<F::Output> {
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    let mut waiting = futures.into_iter().enumerate();
    let mut running = FuturesUnordered::new();
    loop {
        while running.len() < at_once
            && let Some((index, future)) = waiting.next()
        {
            running.push(async move { (index, future.await) });
        }
        match running.next().await {
            Some((index, output)) => outputs[index] = Some(output),
            None => return outputs.into_iter().flatten().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test]
    async fn outputs_come_in_order_and_only_some_run_at_a_time() {
        let (running, most) = (Cell::new(0), Cell::new(0));
        let (running, most) = (&running, &most);
        let futures = (0..20).map(|i| async move {
            running.set(running.get() + 1);
            most.set(most.get().max(running.get()));
            for _ in 0..(20 - i) {
                tokio::task::yield_now().await;
            }
            running.set(running.get() - 1);
            i
        });
        let outputs = all(futures.collect(), 3).await;
        assert_eq!(outputs, (0..20).collect::<Vec<_>>());
        assert_eq!(most.get(), 3);
    }

    #[tokio::test]
    async fn no_futures_return_at_once() {
        assert_eq!(all(Vec::<std::future::Ready<()>>::new(), 3).await, []);
    }
}
