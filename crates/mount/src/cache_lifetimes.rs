//! How long the kernel may cache names and attributes.

use std::time::Duration;

/// Attributes in replies to LINK and to a CREATE of an existing file have no lifetime: the kernel takes them unconditionally, so
/// an older reply that arrives late would stay cached (crate `contract`, rule `Lifetimes`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheLifetimes {
    pub names: Duration,
    /// Negative dentries: a cached "no such name".
    pub negative: Duration,
    pub attributes: AttributeLifetime,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttributeLifetime {
    Fixed(Duration),
    /// As long as the client has a lease on them for certain; zero without one, and in listings.
    Leased,
}

impl CacheLifetimes {
    /// The only mount of its file system: every change passes through this kernel, which then knows of it. The lifetime equals
    /// the planned lease term, so that nothing comes to depend on a longer one.
    pub const EXCLUSIVE: CacheLifetimes = CacheLifetimes {
        names: Duration::from_secs(20),
        negative: Duration::from_secs(20),
        attributes: AttributeLifetime::Fixed(Duration::from_secs(20)),
    };

    /// Other clients may change anything at any moment: the kernel caches only what is invalidated before that.
    pub const SHARED: CacheLifetimes = CacheLifetimes {
        names: Duration::ZERO,
        negative: Duration::ZERO,
        attributes: AttributeLifetime::Leased,
    };

    /// The same on a kernel that lacks what cached attributes require.
    pub const SHARED_WITHOUT_ATTRIBUTES: CacheLifetimes = CacheLifetimes {
        attributes: AttributeLifetime::Fixed(Duration::ZERO),
        ..CacheLifetimes::SHARED
    };
}
