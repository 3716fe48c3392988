//! The errno of a FUSE reply: that of the table in `proto`.

use gupfs_fuse::Errno;
use gupfs_proto::{FsError, errno_number};

/// The errno of a call that missed its deadline.
pub const DEADLINE_ERRNO: Errno = Errno::ETIMEDOUT;

pub fn errno(error: &FsError) -> Errno {
    Errno::from_raw(errno_number(error)).expect("the table has numbers of Linux")
}

/// Whether the error is a failure of a server or network rather than of the program's request: such errors are logged.
pub fn is_failure(error: &FsError) -> bool {
    matches!(
        error,
        FsError::ObjectDamaged { .. }
            | FsError::TargetDown { .. }
            | FsError::StoreFailed(_)
            | FsError::TimedOut(_)
            | FsError::Capability(_)
            | FsError::Malformed(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_deadline_has_the_same_errno_before_and_after_the_reply() {
        assert_eq!(errno(&FsError::TimedOut("a server".into())), DEADLINE_ERRNO);
    }
}
