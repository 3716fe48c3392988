//! The future of one request's outcome.

use super::Shared;
use crate::pending_requests::RequestOutcome;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

pub(crate) struct ReplyWaiter {
    connection: Arc<Shared>,
    id: u64,
    done: bool,
}

impl ReplyWaiter {
    pub fn new(connection: Arc<Shared>, id: u64) -> ReplyWaiter {
        ReplyWaiter {
            connection,
            id,
            done: false,
        }
    }
}

impl Future for ReplyWaiter {
    type Output = RequestOutcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<RequestOutcome> {
        let polled = self.connection.pending.poll(self.id, cx);
        self.done = polled.is_ready();
        polled
    }
}

impl Drop for ReplyWaiter {
    fn drop(&mut self) {
        if !self.done && self.connection.pending.cancel(self.id) {
            self.connection.close_if_fenced();
        }
    }
}
