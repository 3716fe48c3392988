//! Bounds of a mount.

/// Files with setuid or setgid of which the kernel keeps attributes at a time. A whole distribution has some hundred. Attributes
/// of more are given without a lifetime: the kernel asks for them each time.
pub const PRIVILEGED_MAX: usize = 1 << 14;
