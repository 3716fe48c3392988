//! Stops the workers of a run when one of them fails: the others would work on for minutes for a report that is not written.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{SuiteError, SuiteResult};

/// Read after each operation, which costs as much as reading a byte that no other thread writes.
#[derive(Default)]
pub struct StopFlag(AtomicBool);

impl StopFlag {
    pub fn raise(&self) {
        // Relaxed: no other data depend on the flag, and the error itself comes with the worker's result.
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
