//! What a fact is, and what comes of trying one.

use std::fmt::Debug;

use gupfs_fuse::{Errno, NotifyError};
use serde::{Deserialize, Serialize};

/// What a fact is about. A kernel that fails one is refused by this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Which features are agreed on with the kernel, and which never.
    Features,
    /// Names and attributes are believed as long as we say and no longer.
    Lifetimes,
    /// What passes what: invalidations and answers on their way.
    Invalidations,
    /// How single names and all names are taken back.
    Names,
    /// Which of our calls wait for which of the kernel's locks.
    Notifications,
    /// Data through the page cache, and data past it.
    TwoDoors,
    /// Where appends go.
    Appends,
    /// When locks of files are given back.
    Locks,
}

/// What hangs on a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// Every mount counts on it.
    CountedOn,
    /// Without it files are read past the kernel's page cache.
    ForPageCache,
    /// Mounts of which several share files will count on it.
    ForSharing,
    /// We guard against it; a kernel that does otherwise is as good.
    GuardedAgainst,
}

/// One fact.
#[derive(Debug, Clone, Copy)]
pub struct Fact {
    pub rule: Rule,
    pub weight: Weight,
    /// As a sentence with underscores.
    pub name: &'static str,
}

impl Fact {
    /// The name as a sentence.
    pub fn says(&self) -> String {
        self.name.replace('_', " ")
    }
}

/// Why a fact does not stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Otherwise {
    /// The kernel does otherwise.
    Differs(String),
    /// It could not be tried here.
    Untried(String),
}

pub type Tried = Result<(), Otherwise>;

/// What trying a fact showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Stands,
    Differs(String),
    Untried(String),
}

/// A fact and its verdict.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finding {
    pub rule: Rule,
    pub weight: Weight,
    pub fact: String,
    pub verdict: Verdict,
}

impl Finding {
    pub fn of(fact: &Fact, tried: Tried) -> Finding {
        let verdict = match tried {
            Ok(()) => Verdict::Stands,
            Err(Otherwise::Differs(how)) => Verdict::Differs(how),
            Err(Otherwise::Untried(why)) => Verdict::Untried(why),
        };
        Finding {
            rule: fact.rule,
            weight: fact.weight,
            fact: fact.says(),
            verdict,
        }
    }
}

/// An error is no evidence: a machine that forbids or lacks something answers with one, whatever its kernel does.
impl From<Errno> for Otherwise {
    fn from(errno: Errno) -> Otherwise {
        Otherwise::Untried(format!("a program got {errno}"))
    }
}

impl From<NotifyError> for Otherwise {
    fn from(error: NotifyError) -> Otherwise {
        match error {
            NotifyError::Unsupported => {
                Otherwise::Untried("this kernel has no such notification".into())
            }
            other => Otherwise::Untried(format!("a notification was refused: {other}")),
        }
    }
}

/// Without it nothing can be tried: the kernel may have forgotten what it knew, as it does when memory is short.
pub(crate) fn given<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> Tried {
    match found == expected {
        true => Ok(()),
        false => Err(Otherwise::Untried(format!(
            "{what}: {found:?}, not {expected:?}"
        ))),
    }
}

/// It must be so, or the kernel differs.
pub(crate) fn is<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> Tried {
    match found == expected {
        true => Ok(()),
        false => Err(Otherwise::Differs(format!(
            "{what}: {found:?}, not {expected:?}"
        ))),
    }
}
