//! Which target a directory holds, and what a target is opened with.

use super::limits::{OPEN_FILES_MAX, OPEN_FILES_MIN};
use crate::index::Index;
use gupfs_proto::{ClusterId, OstId};

/// The identity of a target: which OST of which cluster a directory holds, or is to hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetId {
    pub cluster: ClusterId,
    pub ost: OstId,
}

/// What `open_with` needs beside the disk.
pub struct TargetOptions {
    pub index: Index,
    /// Bytes of one segment of the records' log.
    pub log_segment: u64,
    /// Object files that may be open. Up to half of them stay open unused. When all are open, the target syncs all, so
    /// that it can close some.
    pub open_files: usize,
}

/// Descriptors that a target may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenFileLimits {
    pub objects: usize,
    /// Tables of the index of its records.
    pub index: usize,
}

impl OpenFileLimits {
    /// More descriptors would not make a target faster.
    pub const MAX: OpenFileLimits = OpenFileLimits {
        objects: OPEN_FILES_MAX,
        index: crate::index::OPEN_TABLES_MAX,
    };
    /// With fewer descriptors a target would sync and close files all the time.
    pub const MIN: OpenFileLimits = OpenFileLimits {
        objects: OPEN_FILES_MIN,
        index: crate::index::OPEN_TABLES_MIN,
    };
}
