//! Errors of initializing and opening a target, and the mapping of disk errors to protocol errors.

use gupfs_platform::{DiskError, DiskErrorKind};
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::{FsError, ObjectId, OstId};

/// The kinds of errors that a caller distinguishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenErrorKind {
    /// The directory holds no target: initialize it, or mount its disk.
    Absent,
    /// The directory already holds a target.
    Exists,
    /// The superblock does not verify.
    Damaged,
    /// A newer gupfs wrote the target, or the target needs a feature that this one does not know.
    Newer,
    /// The directory holds a target of another cluster, or another target of this one.
    Foreign,
    /// Another process has the target open.
    InUse,
    /// The target's records cannot be opened.
    Records,
    Disk,
}

/// Why a target cannot be initialized or opened. The text names the target and what to do.
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
            what: error_chain(&error),
            source: Some(error),
        }
    }
}

/// The text of an error with all its causes.
pub(super) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The protocol error for a disk error in an operation on an object.
pub(super) fn fs_error(ost: OstId, object: ObjectId, error: &DiskError) -> FsError {
    match error.kind {
        DiskErrorKind::Full => FsError::NoSpace,
        DiskErrorKind::TooLarge => FsError::TooLarge,
        DiskErrorKind::Broken => FsError::ObjectDamaged {
            ost,
            object,
            damage: ObjectDamage::Unreadable,
        },
        DiskErrorKind::ReadOnly => FsError::ReadOnly,
        DiskErrorKind::Unsupported => FsError::NotSupported,
        DiskErrorKind::OutOfHandles => FsError::Overloaded,
        _ => FsError::StoreFailed(error_chain(error)),
    }
}
