//! The only table from file system errors to errno, with a reason where the standard leaves a choice. Programs get these numbers
//! from a mount and from the library alike.

use crate::capability::CapabilityFault;
use crate::error::FsError;

/// The Linux error number, positive.
pub fn errno_number(error: &FsError) -> i32 {
    match error {
        FsError::NotFound => libc::ENOENT,
        FsError::Exists => libc::EEXIST,
        FsError::NotDirectory => libc::ENOTDIR,
        FsError::IsDirectory => libc::EISDIR,
        FsError::NotEmpty => libc::ENOTEMPTY,
        FsError::Denied => libc::EACCES,
        FsError::NotPermitted => libc::EPERM,
        FsError::NameTooLong => libc::ENAMETOOLONG,
        FsError::Invalid => libc::EINVAL,
        FsError::IntoItself => libc::EINVAL, // rename(2): a directory into its own subdirectory
        FsError::CrossVolume => libc::EXDEV, // programs copy and delete instead
        FsError::TooManyLinks => libc::EMLINK,
        FsError::Loop => libc::ELOOP,
        FsError::Busy => libc::EBUSY,
        FsError::TooLarge => libc::EFBIG,
        FsError::NoSpace => libc::ENOSPC,
        FsError::QuotaExceeded => libc::EDQUOT,
        FsError::ReadOnly => libc::EROFS,
        FsError::NoAttribute => libc::ENODATA,
        FsError::TooSmall => libc::ERANGE,
        FsError::ValueTooLarge => libc::E2BIG, // setxattr(2) above 64 KiB
        FsError::NoMoreData => libc::ENXIO,    // lseek(2) SEEK_DATA, SEEK_HOLE
        FsError::NotSupported => libc::EOPNOTSUPP,
        FsError::NoDevice => libc::ENXIO,
        FsError::WouldBlock => libc::EAGAIN, // fcntl(2) may say EACCES as well; Linux does not
        FsError::Deadlock => libc::EDEADLK,
        FsError::TooManyLocks(_) => libc::ENOLCK,
        FsError::Stale => libc::ESTALE, // the name is gone: look it up again
        FsError::NotSynced => libc::EIO, // the client syncs and retries
        FsError::OtherInstance(_) => libc::EIO, // the client reconnects and retries
        FsError::SessionEnded => libc::ESTALE, // open files are stale; newly opened ones are not
        // Never zeros for lost bytes. The log and `gupfs status` name the object.
        FsError::ObjectDamaged { .. } => libc::EIO,
        FsError::TargetDown { .. } => libc::EIO,
        FsError::StoreFailed(_) => libc::EIO,
        FsError::Overloaded => libc::EBUSY,
        // A call that missed its deadline. Not EIO, which means that bytes are lost or damaged: here a server was not reachable,
        // and it may still do the operation.
        FsError::TimedOut(_) => libc::ETIMEDOUT,
        FsError::Interrupted => libc::EINTR,
        // The session ended during the call: open files are stale.
        FsError::Capability(CapabilityFault::Fenced) => libc::ESTALE,
        // Not the program's fault: it was allowed to open the file. The log and the server's status name the server that refused.
        FsError::Capability(_) => libc::EIO,
        FsError::Malformed(_) => libc::EIO, // a bug in gupfs; the log has the message
    }
}
