//! The requests in flight, for which a stop waits.

use crate::serving::ServingState;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use tokio::sync::Notify;

pub struct InFlightRequests {
    count: AtomicU64,
    serving: Arc<ServingState>,
    /// Wakes the stop after the last request.
    drained: Notify,
}

impl InFlightRequests {
    pub fn new(serving: Arc<ServingState>) -> InFlightRequests {
        InFlightRequests {
            count: AtomicU64::new(0),
            serving,
            drained: Notify::new(),
        }
    }

    /// Counts a request until the result is dropped.
    pub fn enter(&self) -> InFlightRequest<'_> {
        self.count.fetch_add(1, SeqCst);
        InFlightRequest(self)
    }

    pub fn count(&self) -> u64 {
        self.count.load(SeqCst)
    }

    /// Returns when no request is in flight. Called after `ServingState::begin_stop`.
    pub async fn wait_drained(&self) {
        loop {
            let last = self.drained.notified();
            if self.count() == 0 {
                return;
            }
            last.await;
        }
    }
}

/// One request in flight.
pub struct InFlightRequest<'a>(&'a InFlightRequests);

impl Drop for InFlightRequest<'_> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, SeqCst) == 1 && self.0.serving.is_stopping() {
            self.0.drained.notify_waiters();
        }
    }
}
