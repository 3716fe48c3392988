//! How much is worked on at once, over all connections and for each.

use crate::limits::{PAYLOAD_OF_ALL, PAYLOAD_OF_ONE, QUESTIONS_OF_ALL, QUESTIONS_OF_ONE};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
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
        self.questions.load(SeqCst)
    }

    pub fn payload(&self) -> usize {
        self.payload.load(SeqCst)
    }

    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Counts a question of one connection; None if it has too many, or all connections together have.
    pub fn take(all: &Arc<Load>, one: &Arc<Load>, payload: usize) -> Option<Work> {
        let is_much = |load: &Load, questions, bytes| {
            load.questions() >= questions || load.payload() + payload > bytes
        };
        if is_much(all, QUESTIONS_OF_ALL, PAYLOAD_OF_ALL)
            || is_much(one, QUESTIONS_OF_ONE, PAYLOAD_OF_ONE)
        {
            all.refused.fetch_add(1, Relaxed);
            return None;
        }
        for load in [all, one] {
            load.questions.fetch_add(1, SeqCst);
            load.payload.fetch_add(payload, SeqCst);
        }
        Some(Work {
            loads: [all.clone(), one.clone()],
            payload,
        })
    }

    /// Returns when there are fewer questions than this.
    pub async fn below(&self, questions: usize) {
        loop {
            let mut less = std::pin::pin!(self.less.notified());
            less.as_mut().enable();
            if self.questions() < questions {
                return;
            }
            less.await;
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        for load in &self.loads {
            load.payload.fetch_sub(self.payload, SeqCst);
            load.questions.fetch_sub(1, SeqCst);
            load.less.notify_waiters();
        }
    }
}
