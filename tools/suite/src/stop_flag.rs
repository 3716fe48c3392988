//! Whether the workers of a run shall stop, since one of them has met trouble: nobody writes on for minutes into a report that
//! will not be.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{SuiteError, SuiteResult};

/// Looked at after each operation, which costs as much as reading a byte that nobody writes.
#[derive(Default)]
pub struct StopFlag(AtomicBool);

impl StopFlag {
    pub fn raise(&self) {
        // Nothing else is told by it: what was the trouble comes with the workers' own outcomes.
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error once it is raised, to be passed up.
    ///
    /// # Errors
    ///
    /// The flag is raised.
    pub fn check(&self) -> SuiteResult<()> {
        match self.is_raised() {
            true => Err(SuiteError::another_failed()),
            false => Ok(()),
        }
    }
}
