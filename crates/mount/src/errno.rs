//! The only table from file system errors to errno, with a reason where the standard leaves a choice.

use gupfs_fuse::Errno;
use gupfs_proto::FsError;
use gupfs_proto::capability::CapabilityFault;

/// The errno of a call that missed its deadline. Not EIO, which means that bytes are lost or damaged: here a server was not
/// reachable, and it may still do the operation.
pub const DEADLINE_ERRNO: Errno = Errno::ETIMEDOUT;

pub fn errno(error: &FsError) -> Errno {
    match error {
        FsError::NotFound => Errno::ENOENT,
        FsError::Exists => Errno::EEXIST,
        FsError::NotDirectory => Errno::ENOTDIR,
        FsError::IsDirectory => Errno::EISDIR,
        FsError::NotEmpty => Errno::ENOTEMPTY,
        FsError::Denied => Errno::EACCES,
        FsError::NotPermitted => Errno::EPERM,
        FsError::NameTooLong => Errno::ENAMETOOLONG,
        FsError::Invalid => Errno::EINVAL,
        FsError::IntoItself => Errno::EINVAL, // rename(2): a directory into its own subdirectory
        FsError::CrossVolume => Errno::EXDEV, // programs copy and delete instead
        FsError::TooManyLinks => Errno::EMLINK,
        FsError::Loop => Errno::ELOOP,
        FsError::Busy => Errno::EBUSY,
        FsError::TooLarge => Errno::EFBIG,
        FsError::NoSpace => Errno::ENOSPC,
        FsError::QuotaExceeded => Errno::EDQUOT,
        FsError::ReadOnly => Errno::EROFS,
        FsError::NoAttribute => Errno::ENODATA,
        FsError::TooSmall => Errno::ERANGE,
        FsError::ValueTooLarge => Errno::E2BIG, // setxattr(2) above 64 KiB
        FsError::NoMoreData => Errno::ENXIO,    // lseek(2) SEEK_DATA, SEEK_HOLE
        FsError::NotSupported => Errno::EOPNOTSUPP,
        FsError::NoDevice => Errno::ENXIO,
        FsError::WouldBlock => Errno::EAGAIN, // fcntl(2) may say EACCES as well; Linux does not
        FsError::Deadlock => Errno::EDEADLK,
        FsError::TooManyLocks(_) => Errno::ENOLCK,
        FsError::Stale => Errno::ESTALE, // the name is gone: look it up again
        FsError::NotSynced => Errno::EIO, // the client syncs and retries
        FsError::OtherInstance(_) => Errno::EIO, // the client reconnects and retries
        FsError::SessionEnded => Errno::ESTALE, // open files are stale; newly opened ones are not
        // Never zeros for lost bytes. The log and `gupfs status` name the object.
        FsError::ObjectDamaged { .. } => Errno::EIO,
        FsError::TargetDown { .. } => Errno::EIO,
        FsError::StoreFailed(_) => Errno::EIO,
        FsError::Overloaded => Errno::EBUSY,
        FsError::TimedOut(_) => DEADLINE_ERRNO,
        FsError::Interrupted => Errno::EINTR,
        // The session ended during the call: open files are stale.
        FsError::Capability(CapabilityFault::Fenced) => Errno::ESTALE,
        // Not the program's fault: it was allowed to open the file. The log and the server's status name the server that refused.
        FsError::Capability(_) => Errno::EIO,
        FsError::Malformed(_) => Errno::EIO, // a bug in gupfs; the log has the message
    }
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
