//! Numbers of leases on files' data.

use std::sync::atomic::{AtomicU64, Ordering};

/// One lease on a file's data, for reading or writing, from the moment at which this client got it to its end. Another lease of the same file
/// has another number: the file may have changed between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseNumber(u64);

impl LeaseNumber {
    /// A number that no other lease of this process has.
    pub fn next() -> LeaseNumber {
        static LAST: AtomicU64 = AtomicU64::new(0);
        LeaseNumber(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
