//! Facts about the kernel, and the results of testing them.

use std::fmt::Debug;

use gupfs_fuse::{Errno, NotifyError};
use serde::{Deserialize, Serialize};

/// The coherence rule that a fact belongs to. gupfs names the rule when it refuses a kernel.
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

/// How gupfs depends on a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FactWeight {
    /// Every mount requires it.
    #[serde(rename = "counted-on")]
    Required,
    /// Without it files are read with direct I/O instead of through the kernel's page cache.
    ForPageCache,
    /// Mounts that share files will require it.
    ForSharing,
    /// gupfs tolerates this behaviour; a kernel without it is as good.
    #[serde(rename = "guarded-against")]
    Tolerated,
}

/// A statement about the kernel's behaviour that can be tested.
#[derive(Debug, Clone, Copy)]
pub struct KernelFact {
    pub rule: CoherenceRule,
    pub weight: FactWeight,
    /// The statement, with underscores instead of spaces.
    pub name: &'static str,
}

impl KernelFact {
    /// The statement as a sentence.
    pub fn sentence(&self) -> String {
        self.name.replace('_', " ")
    }
}

/// Why the test of a fact did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeFailure {
    /// The kernel behaves differently.
    Differs(String),
    /// The fact could not be tested on this host.
    Untried(String),
}

pub type ProbeResult = Result<(), ProbeFailure>;

/// The result of testing a fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FactVerdict {
    #[serde(rename = "stands")]
    Holds,
    Differs(String),
    Untried(String),
}

/// A fact and its verdict.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FactFinding {
    pub rule: CoherenceRule,
    pub weight: FactWeight,
    pub fact: String,
    pub verdict: FactVerdict,
}

impl FactFinding {
    pub fn of(fact: &KernelFact, tried: ProbeResult) -> FactFinding {
        let verdict = match tried {
            Ok(()) => FactVerdict::Holds,
            Err(ProbeFailure::Differs(how)) => FactVerdict::Differs(how),
            Err(ProbeFailure::Untried(why)) => FactVerdict::Untried(why),
        };
        FactFinding {
            rule: fact.rule,
            weight: fact.weight,
            fact: fact.sentence(),
            verdict,
        }
    }
}

/// An error is no evidence: a host that forbids or lacks something returns one, whatever its kernel does.
impl From<Errno> for ProbeFailure {
    fn from(errno: Errno) -> ProbeFailure {
        ProbeFailure::Untried(format!("a system call of the test failed: {errno}"))
    }
}

impl From<NotifyError> for ProbeFailure {
    fn from(error: NotifyError) -> ProbeFailure {
        match error {
            NotifyError::Unsupported => {
                ProbeFailure::Untried("this kernel does not support a needed notification".into())
            }
            other => ProbeFailure::Untried(format!("the kernel rejected a notification: {other}")),
        }
    }
}

/// Checks a precondition. If it does not hold, the fact cannot be tested: the kernel may have dropped cached state, as it does
/// under memory pressure.
pub(crate) fn expect_before<T: PartialEq + Debug>(
    what: &str,
    found: T,
    expected: T,
) -> ProbeResult {
    match found == expected {
        true => Ok(()),
        false => Err(ProbeFailure::Untried(format!(
            "{what} is {found:?}, expected {expected:?}"
        ))),
    }
}

/// Checks the fact itself. If it does not hold, the kernel differs.
pub(crate) fn expect_equal<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> ProbeResult {
    match found == expected {
        true => Ok(()),
        false => Err(ProbeFailure::Differs(format!(
            "{what} is {found:?}, expected {expected:?}"
        ))),
    }
}
