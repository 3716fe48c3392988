//! What a worker has done and is doing, for the thread that reports it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::time::{ClockId, clock_gettime};

use crate::history::{Nanos, Record};

/// The clock of histories: no one sets it, and all processes of a host share it.
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Shared by the thread that works and the one that reports: if the first hangs, the second still says in what.
#[derive(Default)]
pub struct Desk(Mutex<Papers>);

#[derive(Default)]
pub struct Papers {
    pub done: Vec<Record>,
    pub running: Option<Record>,
}

impl Desk {
    pub fn begin(&self, record: Record) {
        self.papers().running = Some(record);
    }

    pub fn end(&self, record: Record) {
        let mut papers = self.papers();
        papers.running = None;
        papers.done.push(record);
    }

    /// What was done since, and what is being done.
    pub fn take(&self) -> Papers {
        let mut papers = self.papers();
        Papers {
            done: std::mem::take(&mut papers.done),
            running: papers.running.clone(),
        }
    }

    fn papers(&self) -> MutexGuard<'_, Papers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
