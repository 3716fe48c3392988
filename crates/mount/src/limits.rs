//! Bounds of a mount.

use std::time::Duration;

/// Files with setuid or setgid whose attributes the kernel may cache at a time. A whole distribution has some hundreds.
/// Attributes of further files get no lifetime: the kernel requests them each time.
pub const SETID_INODES_MAX: usize = 1 << 14;

/// Processes whose jobs a mount remembers at a time.
pub const PROCESSES_MAX: usize = 1 << 13;

/// For how long a process keeps its job without another look: as long as it has had it, within these bounds. Most programs
/// are executed within a millisecond after their process began.
pub const PROCESS_TRUSTED_MIN: Duration = Duration::from_millis(1);
pub const PROCESS_TRUSTED_MAX: Duration = Duration::from_secs(1);
