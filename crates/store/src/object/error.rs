//! What goes wrong when a target is made or opened, and how failures of a disk are told to those who asked for bytes.

use gupfs_platform::{DiskError, DiskErrorKind};
use gupfs_proto::refusal::ObjectDamage;
use gupfs_proto::{ObjectId, OstId, Refusal};

/// What a caller can act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenErrorKind {
    /// The directory holds no target: initialise it, or the disk is not mounted.
    Absent,
    /// It holds one already.
    Exists,
    /// The superblock does not verify.
    Damaged,
    /// Written by a newer gupfs, or with a feature this one does not know.
    Newer,
    /// It belongs to another cluster, or is another target of this one.
    Foreign,
    /// Another process serves it.
    InUse,
    /// Its records cannot be opened.
    Records,
    Disk,
}

/// Why a target cannot be made or opened: the text says which, and what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what}")]
pub struct OpenError {
    pub kind: OpenErrorKind,
    pub what: String,
    #[source]
    pub source: Option<DiskError>,
}

impl OpenError {
    pub(super) fn new(kind: OpenErrorKind, what: impl Into<String>) -> OpenError {
        OpenError {
            kind,
            what: what.into(),
            source: None,
        }
    }
}

impl From<DiskError> for OpenError {
    fn from(error: DiskError) -> OpenError {
        let kind = match error.kind {
            DiskErrorKind::Locked(_) => OpenErrorKind::InUse,
            _ => OpenErrorKind::Disk,
        };
        OpenError {
            kind,
            what: told(&error),
            source: Some(error),
        }
    }
}

/// An error with all its causes.
pub(super) fn told(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    said
}

/// How an object's reader or writer is told that the disk refused.
pub(super) fn refusal(ost: OstId, object: ObjectId, error: &DiskError) -> Refusal {
    match error.kind {
        DiskErrorKind::Full => Refusal::NoSpace,
        DiskErrorKind::TooLarge => Refusal::TooLarge,
        DiskErrorKind::Broken => Refusal::ObjectDamaged {
            ost,
            object,
            what: ObjectDamage::Unreadable,
        },
        DiskErrorKind::ReadOnly => Refusal::ReadOnly,
        DiskErrorKind::Unsupported => Refusal::NotSupported,
        DiskErrorKind::OutOfHandles => Refusal::Overloaded,
        _ => Refusal::StoreFailed(told(error)),
    }
}
