//! Which process made an object: after a fork the child leaks what the parent made.

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};

static FORKS: AtomicU64 = AtomicU64::new(0);

/// How many forks lie between this process and the one that imported the module.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ForkCount(u64);

impl ForkCount {
    pub fn now() -> ForkCount {
        ForkCount(FORKS.load(Ordering::Acquire))
    }

    pub fn increment() {
        FORKS.fetch_add(1, Ordering::AcqRel);
    }
}

/// A value that belongs to the process that made it. In a child of that process nothing reaches it, and nothing drops it: its locks may be
/// locked there, and its tasks do not run.
pub struct OfProcess<T> {
    value: ManuallyDrop<T>,
    made_in: ForkCount,
}

impl<T> OfProcess<T> {
    pub fn new(value: T) -> OfProcess<T> {
        OfProcess {
            value: ManuallyDrop::new(value),
            made_in: ForkCount::now(),
        }
    }

    pub fn is_here(&self) -> bool {
        self.made_in == ForkCount::now()
    }

    /// The value.
    ///
    /// # Errors
    /// ESTALE in a child.
    pub fn get(&self) -> PyResult<&T> {
        match self.is_here() {
            true => Ok(&self.value),
            false => Err(PyOSError::new_err((
                libc::ESTALE,
                "it was opened before this process was forked; open it again in this process",
            ))),
        }
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: it is dropped once, here, and nothing uses it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}
