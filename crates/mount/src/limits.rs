//! Bounds of a mount.

/// Files with setuid or setgid whose attributes the kernel may cache at a time. A whole distribution has some hundreds.
/// Attributes of further files get no lifetime: the kernel requests them each time.
pub const SETID_INODES_MAX: usize = 1 << 14;
