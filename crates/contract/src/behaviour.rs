//! Statements about the kernel's behaviour, and the results of probing them.

use std::fmt::Debug;

use gupfs_fuse::{Errno, NotifyError};
use serde::{Deserialize, Serialize};

/// The coherence rule that a behaviour belongs to. gupfs names the rule when it refuses a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoherenceRule {
    /// Which FUSE features are negotiated, and which never.
    Features,
    /// The kernel caches names and attributes as long as the reply permits, and no longer.
    Lifetimes,
    /// The order of invalidations and replies that are in flight.
    Invalidations,
    /// How single names and all names are invalidated.
    Names,
    /// Which notifications wait for which locks of the kernel.
    Notifications,
    /// Cached I/O and direct I/O on one file.
    #[serde(rename = "two-doors")]
    CachedAndDirect,
    /// The offset of appends.
    Appends,
    /// When file locks are released.
    Locks,
}

/// A cache of the kernel that mounts which share files may use only if the kernel has the behaviours that the cache depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelCache {
    /// Dentries, negative ones too.
    Names,
    /// Attributes and ACLs of inodes.
    Attributes,
    /// Pages that read(2) of a file opened without direct I/O returns.
    Pages,
    /// Pages that programs have mapped.
    Mappings,
    /// Pages that splice(2) and sendfile(2) return.
    Splice,
}

impl KernelCache {
    pub const ALL: [KernelCache; 5] = [
        KernelCache::Names,
        KernelCache::Attributes,
        KernelCache::Pages,
        KernelCache::Mappings,
        KernelCache::Splice,
    ];
}

impl std::fmt::Display for KernelCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            KernelCache::Names => "names",
            KernelCache::Attributes => "attributes",
            KernelCache::Pages => "pages",
            KernelCache::Mappings => "mappings",
            KernelCache::Splice => "splice",
        })
    }
}

/// How gupfs depends on a behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequirementLevel {
    /// Every mount requires it.
    #[serde(rename = "counted-on")]
    Required,
    /// Without it files are read with direct I/O instead of through the kernel's page cache.
    ForPageCache,
    /// Mounts that share files require it: without it they do not use the caches that depend on it.
    ForSharing,
    /// gupfs tolerates this behaviour; a kernel without it is as good.
    #[serde(rename = "guarded-against")]
    Tolerated,
}

/// A behaviour of the kernel that can be probed.
#[derive(Debug, Clone, Copy)]
pub struct KernelBehaviour {
    pub rule: CoherenceRule,
    pub requirement: RequirementLevel,
    /// What the kernel does, as a statement with underscores instead of spaces.
    pub name: &'static str,
    /// The caches that depend on it.
    pub caches: &'static [KernelCache],
    /// What the probe does.
    pub done: &'static str,
    /// What the probe must see.
    pub seen: &'static str,
}

impl KernelBehaviour {
    /// The statement as a sentence.
    pub fn sentence(&self) -> String {
        self.name.replace('_', " ")
    }
}

/// Why a probe did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeFailure {
    /// The kernel behaves differently.
    Differs(String),
    /// The behaviour could not be probed on this host.
    Untested(String),
}

pub type ProbeResult = Result<(), ProbeFailure>;

/// The result of a probe, as it is reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeOutcome {
    #[serde(rename = "stands")]
    Holds,
    Differs(String),
    #[serde(rename = "untried")]
    Untested(String),
}

/// A behaviour and the outcome of its probe.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProbeReport {
    pub rule: CoherenceRule,
    #[serde(rename = "weight")]
    pub requirement: RequirementLevel,
    #[serde(default)]
    pub caches: Vec<KernelCache>,
    #[serde(rename = "fact")]
    pub behaviour: String,
    #[serde(rename = "verdict")]
    pub outcome: ProbeOutcome,
}

impl ProbeReport {
    pub fn of(behaviour: &KernelBehaviour, result: ProbeResult) -> ProbeReport {
        let outcome = match result {
            Ok(()) => ProbeOutcome::Holds,
            Err(ProbeFailure::Differs(how)) => ProbeOutcome::Differs(how),
            Err(ProbeFailure::Untested(why)) => ProbeOutcome::Untested(why),
        };
        ProbeReport {
            rule: behaviour.rule,
            requirement: behaviour.requirement,
            caches: behaviour.caches.to_vec(),
            behaviour: behaviour.sentence(),
            outcome,
        }
    }
}

/// An error is no evidence: a host that forbids or lacks something returns one, whatever its kernel does.
impl From<Errno> for ProbeFailure {
    fn from(errno: Errno) -> ProbeFailure {
        ProbeFailure::Untested(format!("a system call of the test failed: {errno}"))
    }
}

impl From<NotifyError> for ProbeFailure {
    fn from(error: NotifyError) -> ProbeFailure {
        match error {
            NotifyError::Unsupported => {
                ProbeFailure::Differs("this kernel does not have the notification".into())
            }
            other => ProbeFailure::Untested(format!("the kernel rejected a notification: {other}")),
        }
    }
}

/// Checks a precondition. If it does not hold, the behaviour cannot be probed: the kernel may have dropped cached state, as it does
/// under memory pressure.
pub(crate) fn expect_before<T: PartialEq + Debug>(
    what: &str,
    found: T,
    expected: T,
) -> ProbeResult {
    match found == expected {
        true => Ok(()),
        false => Err(ProbeFailure::Untested(format!(
            "{what} is {found:?}, expected {expected:?}"
        ))),
    }
}

/// Checks the behaviour itself. If it does not hold, the kernel differs.
pub(crate) fn expect_equal<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> ProbeResult {
    match found == expected {
        true => Ok(()),
        false => Err(ProbeFailure::Differs(format!(
            "{what} is {found:?}, expected {expected:?}"
        ))),
    }
}
