//! The records of a worker, for the thread that reports them.

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
pub struct SharedProgress(Mutex<Progress>);

#[derive(Default)]
pub struct Progress {
    pub done: Vec<Record>,
    pub running: Option<Record>,
}

impl SharedProgress {
    pub fn begin(&self, record: Record) {
        self.reported().running = Some(record);
    }

    pub fn end(&self, record: Record) {
        let mut reported = self.reported();
        reported.running = None;
        reported.done.push(record);
    }

    /// The records since the last call, and the operation that is running.
    pub fn take(&self) -> Progress {
        let mut reported = self.reported();
        Progress {
            done: std::mem::take(&mut reported.done),
            running: reported.running.clone(),
        }
    }

    fn reported(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
