//! Holds replies back until a test releases them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::ProbeFailure;

/// A request that does not arrive within this time counts as not sent.
const GATE_TIMEOUT: Duration = Duration::from_secs(5);

const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Requests of one operation wait here before their reply.
pub struct RequestGate {
    waiting: AtomicUsize,
    open: Semaphore,
}

impl RequestGate {
    pub(crate) fn new() -> RequestGate {
        RequestGate {
            waiting: AtomicUsize::new(0),
            open: Semaphore::new(0),
        }
    }

    /// Waits until the test releases this reply.
    pub(crate) async fn wait_for_release(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if let Ok(permit) = self.open.acquire().await {
            permit.forget();
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Number of requests that wait now.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits until `count` requests wait.
    ///
    /// # Errors
    /// `Untested` if another number of requests waits after `GATE_TIMEOUT`.
    pub async fn wait_until_waiting(&self, count: usize) -> Result<(), ProbeFailure> {
        let started = Instant::now();
        while self.waiting() != count {
            if started.elapsed() > GATE_TIMEOUT {
                let found = self.waiting();
                return Err(ProbeFailure::Untested(format!(
                    "{found} requests wait, expected {count}"
                )));
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Releases `count` replies, including those of later requests.
    pub fn release_replies(&self, count: usize) {
        self.open.add_permits(count);
    }
}
