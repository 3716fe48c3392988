//! Write errors as the kernel counts and reports them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Failed write-backs of a file or of the whole disk, counted as Linux does (errseq_t).
#[derive(Clone, Copy, Default)]
pub struct WriteErrors {
    count: u64,
    /// A descriptor has reported the last one.
    reported: bool,
}

impl WriteErrors {
    pub fn record(&mut self) {
        self.count += 1;
        self.reported = false;
    }

    /// The count that a newly opened descriptor starts with: it will report the last error, if no other descriptor has.
    pub fn known_to_new_descriptor(&self) -> u64 {
        self.count - u64::from(!self.reported && self.count > 0)
    }

    /// Whether a descriptor that knows `known` errors must report one now.
    pub fn report_to(&mut self, known: &AtomicU64) -> bool {
        let news = known.swap(self.count, Ordering::Relaxed) != self.count;
        self.reported |= news;
        news
    }
}
