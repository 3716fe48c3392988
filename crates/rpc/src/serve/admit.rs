//! How much is worked on at once, over all connections and for each.

use crate::limits::{PAYLOAD_OF_ALL, QUESTIONS_OF_ALL};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
};
use tokio::sync::Notify;

/// Questions under way and the bytes they hold.
#[derive(Default)]
pub(crate) struct Load {
    questions: AtomicUsize,
    payload: AtomicUsize,
    refused: AtomicU64,
    less: Notify,
}

/// A question that is worked on until this is dropped.
pub(crate) struct Work {
    loads: [Arc<Load>; 2],
    payload: usize,
}

impl Load {
    pub fn questions(&self) -> usize {
        self.questions.load(Acquire)
    }

    pub fn payload(&self) -> usize {
        self.payload.load(Acquire)
    }

    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Counts a question of one connection; None if all connections together have too many.
    pub fn take(all: &Arc<Load>, one: &Arc<Load>, payload: usize) -> Option<Work> {
        if all.questions() >= QUESTIONS_OF_ALL || all.payload() + payload > PAYLOAD_OF_ALL {
            all.refused.fetch_add(1, Relaxed);
            return None;
        }
        for load in [all, one] {
            load.questions.fetch_add(1, AcqRel);
            load.payload.fetch_add(payload, AcqRel);
        }
        Some(Work {
            loads: [all.clone(), one.clone()],
            payload,
        })
    }

    /// Returns when there are fewer questions than this, and fewer bytes.
    pub async fn below(&self, questions: usize, payload: usize) {
        loop {
            let mut less = std::pin::pin!(self.less.notified());
            less.as_mut().enable();
            if self.questions() < questions && self.payload() < payload {
                return;
            }
            less.await;
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        for load in &self.loads {
            load.payload.fetch_sub(self.payload, AcqRel);
            load.questions.fetch_sub(1, AcqRel);
            load.less.notify_waiters();
        }
    }
}
