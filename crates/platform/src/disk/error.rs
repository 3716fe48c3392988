//! What a disk says when it does not do what it was asked.

use std::io;
use std::sync::Arc;

/// What a caller can act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskErrorKind {
    NotFound,
    Exists,
    /// No space, no inodes, or a quota: ENOSPC, EDQUOT.
    Full,
    /// Longer than a file can be here: EFBIG.
    TooLarge,
    /// The device failed: EIO. What was written and not synced since may be lost, whatever a later sync says.
    Broken,
    ReadOnly,
    Denied,
    NotEmpty,
    /// Not a directory, or a directory where a file was meant.
    WrongKind,
    /// Another process holds the lock; its pid if it left one.
    Locked(Option<u32>),
    /// This file system cannot do that (EOPNOTSUPP): punch a hole, give direct access.
    Unsupported,
    /// No more file descriptors.
    OutOfHandles,
    /// The process this handle belongs to is dead; only in simulations.
    Dead,
    Other,
}

/// What failed, on which file, and what the system said.
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
    fn a_quota_and_a_full_disk_are_the_same_to_a_caller() {
        for code in [libc::ENOSPC, libc::EDQUOT] {
            let error = DiskError::new("write", "log/1", io::Error::from_raw_os_error(code));
            assert_eq!(error.kind, DiskErrorKind::Full);
        }
    }

    #[test]
    fn a_held_lock_names_its_holder() {
        let error = DiskError::new("lock", "lock", io::Error::from_raw_os_error(libc::EAGAIN))
            .with_kind(DiskErrorKind::Locked(Some(4711)));
        assert_eq!(
            error.to_string(),
            "cannot lock 'lock': held by process 4711"
        );
    }
}
