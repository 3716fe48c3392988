//! Errors of disk operations.

use std::io;
use std::sync::Arc;

/// Error kinds that a caller can act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskErrorKind {
    NotFound,
    Exists,
    /// No space, no inodes, or a quota: ENOSPC, EDQUOT.
    Full,
    /// Above the largest file size of this file system: EFBIG.
    TooLarge,
    /// The device failed: EIO. Unsynced writes may be lost, even if a later sync succeeds.
    Broken,
    ReadOnly,
    Denied,
    NotEmpty,
    /// Not a directory, or a directory instead of a file.
    WrongKind,
    /// Another process holds the lock; its pid, if the lock file contains it.
    Locked(Option<u32>),
    /// The file system does not support the operation (EOPNOTSUPP): punching a hole, direct I/O.
    Unsupported,
    /// No more file descriptors.
    OutOfHandles,
    /// The process that this handle belongs to is dead; only in simulations.
    Dead,
    Other,
}

/// The operation that failed, its file, and the error of the system.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {op} '{path}'{}", hint(*kind))]
pub struct DiskError {
    pub kind: DiskErrorKind,
    pub op: &'static str,
    pub path: Arc<str>,
    #[source]
    pub source: Arc<io::Error>,
}

fn hint(kind: DiskErrorKind) -> String {
    match kind {
        DiskErrorKind::Locked(Some(pid)) => format!(": held by process {pid}"),
        DiskErrorKind::Locked(None) => ": held by another process".into(),
        _ => String::new(),
    }
}

impl DiskError {
    pub fn new(op: &'static str, path: impl Into<Arc<str>>, source: io::Error) -> DiskError {
        DiskError {
            kind: kind_of(&source),
            op,
            path: path.into(),
            source: Arc::new(source),
        }
    }

    pub(crate) fn with_kind(mut self, kind: DiskErrorKind) -> DiskError {
        self.kind = kind;
        self
    }
}

fn kind_of(error: &io::Error) -> DiskErrorKind {
    use DiskErrorKind::*;
    let Some(code) = error.raw_os_error() else {
        return Other;
    };
    match code {
        libc::ENOENT => NotFound,
        libc::EEXIST => Exists,
        libc::ENOSPC | libc::EDQUOT => Full,
        libc::EFBIG => TooLarge,
        libc::EIO | libc::EUCLEAN | libc::EBADMSG => Broken,
        libc::EROFS => ReadOnly,
        libc::EACCES | libc::EPERM => Denied,
        libc::ENOTEMPTY => NotEmpty,
        libc::ENOTDIR | libc::EISDIR => WrongKind,
        libc::EOPNOTSUPP | libc::ENOSYS => Unsupported,
        libc::EMFILE | libc::ENFILE => OutOfHandles,
        _ => Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exceeded_quota_and_a_full_disk_have_the_same_kind() {
        for code in [libc::ENOSPC, libc::EDQUOT] {
            let error = DiskError::new("write", "log/1", io::Error::from_raw_os_error(code));
            assert_eq!(error.kind, DiskErrorKind::Full);
        }
    }

    #[test]
    fn the_error_for_a_held_lock_contains_its_holders_pid() {
        let error = DiskError::new("lock", "lock", io::Error::from_raw_os_error(libc::EAGAIN))
            .with_kind(DiskErrorKind::Locked(Some(4711)));
        assert_eq!(
            error.to_string(),
            "cannot lock 'lock': held by process 4711"
        );
    }
}
