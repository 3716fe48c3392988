//! Several questions side by side, and never more than some at a time.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

/// What the futures give, in their order.
pub async fn all<F: Future>(futures: Vec<F>, at_once: usize) -> Vec<F::Output> {
    let mut answers: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    let mut waiting = futures.into_iter().enumerate();
    let mut running = FuturesUnordered::new();
    loop {
        while running.len() < at_once
            && let Some((place, future)) = waiting.next()
        {
            running.push(async move { (place, future.await) });
        }
        match running.next().await {
            Some((place, answer)) => answers[place] = Some(answer),
            None => return answers.into_iter().flatten().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test]
    async fn answers_come_in_order_and_only_some_run_at_a_time() {
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
        let answers = all(futures.collect(), 3).await;
        assert_eq!(answers, (0..20).collect::<Vec<_>>());
        assert_eq!(most.get(), 3);
    }

    #[tokio::test]
    async fn nothing_asked_is_answered_at_once() {
        assert_eq!(all(Vec::<std::future::Ready<()>>::new(), 3).await, []);
    }
}
