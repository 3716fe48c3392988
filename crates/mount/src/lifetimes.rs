//! How long the kernel may believe names and attributes without asking.

use std::time::Duration;

/// Attributes of LINK and of a CREATE that found a file have no lifetime: the kernel takes them unconditionally, so an older
/// answer that arrives late would stay (COHERENCE, rule 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lifetimes {
    pub names: Duration,
    /// "There is no such name."
    pub absent: Duration,
    pub attributes: Duration,
}

impl Lifetimes {
    /// The only mount of its file system: every change passes through this kernel, which then knows of it. The term is
    /// the one that leases will have, so that nothing gets used to longer.
    pub const ALONE: Lifetimes = Lifetimes {
        names: Duration::from_secs(20),
        absent: Duration::from_secs(20),
        attributes: Duration::from_secs(20),
    };

    /// Others may change anything at any moment: always ask.
    pub const SHARED: Lifetimes = Lifetimes {
        names: Duration::ZERO,
        absent: Duration::ZERO,
        attributes: Duration::ZERO,
    };
}
