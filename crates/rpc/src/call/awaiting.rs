//! The answer to one question, as a future.

use super::Shared;
use super::table::Outcome;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

pub(crate) struct Awaiting {
    line: Arc<Shared>,
    number: u64,
    done: bool,
}

impl Awaiting {
    pub fn new(line: Arc<Shared>, number: u64) -> Awaiting {
        Awaiting {
            line,
            number,
            done: false,
        }
    }
}

impl Future for Awaiting {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let polled = self.line.table.poll(self.number, cx);
        self.done = polled.is_ready();
        polled
    }
}

impl Drop for Awaiting {
    fn drop(&mut self) {
        if !self.done && self.line.table.forget(self.number) {
            self.line.fence();
        }
    }
}
