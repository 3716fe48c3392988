//! How long the kernel may cache names and attributes.

use std::time::Duration;

/// Attributes in replies to LINK and to a CREATE of an existing file have no lifetime: the kernel takes them unconditionally, so
/// an older reply that arrives late would stay cached (crate `contract`, rule `Lifetimes`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheLifetimes {
    pub names: Duration,
    /// Negative dentries: a cached "no such name".
    pub negative: Duration,
    pub attributes: Duration,
}

impl CacheLifetimes {
    /// The only mount of its file system: every change passes through this kernel, which then knows of it. The lifetime equals
    /// the planned lease term, so that nothing comes to depend on a longer one.
    pub const EXCLUSIVE: CacheLifetimes = CacheLifetimes {
        names: Duration::from_secs(20),
        negative: Duration::from_secs(20),
        attributes: Duration::from_secs(20),
    };

    /// Other clients may change anything at any moment: the kernel caches nothing.
    pub const SHARED: CacheLifetimes = CacheLifetimes {
        names: Duration::ZERO,
        negative: Duration::ZERO,
        attributes: Duration::ZERO,
    };
}
