//! Pauses in which no program calls: between two faults that hit one server each.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Whether programs pause, and the number of those that are in a call.
#[derive(Default)]
pub struct ProgramPause {
    pauses: AtomicBool,
    acting: AtomicU64,
}

/// A program that may call.
pub struct ActingProgram<'a>(&'a ProgramPause);

impl Drop for ActingProgram<'_> {
    fn drop(&mut self) {
        self.0.acting.fetch_sub(1, SeqCst);
    }
}

impl ProgramPause {
    /// None while programs must pause.
    pub fn act(&self) -> Option<ActingProgram<'_>> {
        if self.pauses.load(SeqCst) {
            return None;
        }
        self.acting.fetch_add(1, SeqCst);
        Some(ActingProgram(self))
    }

    /// Programs that are in a call go on until it ends.
    pub fn begin(&self) {
        self.pauses.store(true, SeqCst);
    }

    pub fn end(&self) {
        self.pauses.store(false, SeqCst);
    }

    /// Whether programs must pause: they close their files then, so that no session keeps a write lease.
    pub fn is_pausing(&self) -> bool {
        self.pauses.load(SeqCst)
    }

    /// Whether no program is in a call.
    pub fn is_quiet(&self) -> bool {
        self.acting.load(SeqCst) == 0
    }
}
