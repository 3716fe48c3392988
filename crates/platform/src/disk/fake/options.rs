//! What a fake disk is made with.

use crate::clock::fake::FakeClock;
use std::sync::Arc;

#[derive(Clone)]
pub struct FakeOptions {
    /// Bytes of space.
    pub capacity: u64,
    /// Whether syncfs(2) reports failed writes.
    pub syncfs_reports_errors: bool,
    /// Whether calls yield to other tasks at random, before and within them. Needs no timer.
    pub yields: bool,
    /// Clock for mtimes; without one they are call counts.
    pub clock: Option<FakeClock>,
    /// Called when the process dies because of `die_at`: a test breaks its connections here, for example.
    pub on_death: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Default for FakeOptions {
    fn default() -> Self {
        FakeOptions {
            capacity: 1 << 40,
            syncfs_reports_errors: true,
            yields: false,
            clock: None,
            on_death: None,
        }
    }
}
