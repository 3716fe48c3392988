//! The only table that turns refusals into errno, with a reason where the standard leaves a choice.

use gupfs_fuse::Errno;
use gupfs_proto::Refusal;
use gupfs_proto::capability::Fault;

/// A call was not done in time. Not EIO: that says that bytes are lost or damaged, this that a server was not there, and
/// that what was asked for may still be done.
pub const OVERDUE: Errno = Errno::ETIMEDOUT;

pub fn errno(refusal: &Refusal) -> Errno {
    match refusal {
        Refusal::NotFound => Errno::ENOENT,
        Refusal::Exists => Errno::EEXIST,
        Refusal::NotDirectory => Errno::ENOTDIR,
        Refusal::IsDirectory => Errno::EISDIR,
        Refusal::NotEmpty => Errno::ENOTEMPTY,
        Refusal::Denied => Errno::EACCES,
        Refusal::NotPermitted => Errno::EPERM,
        Refusal::NameTooLong => Errno::ENAMETOOLONG,
        Refusal::Invalid => Errno::EINVAL,
        Refusal::IntoItself => Errno::EINVAL, // rename(2): a directory into its own subdirectory
        Refusal::CrossVolume => Errno::EXDEV, // programs copy and delete instead
        Refusal::TooManyLinks => Errno::EMLINK,
        Refusal::Loop => Errno::ELOOP,
        Refusal::Busy => Errno::EBUSY,
        Refusal::TooLarge => Errno::EFBIG,
        Refusal::NoSpace => Errno::ENOSPC,
        Refusal::QuotaExceeded => Errno::EDQUOT,
        Refusal::ReadOnly => Errno::EROFS,
        Refusal::NoAttribute => Errno::ENODATA,
        Refusal::TooSmall => Errno::ERANGE,
        Refusal::ValueTooLarge => Errno::E2BIG, // setxattr(2) above 64 KiB
        Refusal::NoMoreData => Errno::ENXIO,    // lseek(2) SEEK_DATA, SEEK_HOLE
        Refusal::NotSupported => Errno::EOPNOTSUPP,
        Refusal::NoDevice => Errno::ENXIO,
        Refusal::WouldBlock => Errno::EAGAIN, // fcntl(2) may say EACCES as well; Linux does not
        Refusal::Deadlock => Errno::EDEADLK,
        Refusal::TooManyLocks(_) => Errno::ENOLCK,
        Refusal::Stale => Errno::ESTALE, // the name is gone: look it up again
        Refusal::NotSynced => Errno::EIO, // the client syncs and asks again
        Refusal::AnotherLife(_) => Errno::EIO, // the client comes back by itself and asks again
        Refusal::SessionEnded => Errno::ESTALE, // what was open is lost; what is opened anew is not
        // Never zeros for bytes that are lost. Which object it was is logged and shown by `gupfs status`.
        Refusal::ObjectDamaged { .. } => Errno::EIO,
        Refusal::TargetDown { .. } => Errno::EIO,
        Refusal::StoreFailed(_) => Errno::EIO,
        Refusal::Overloaded => Errno::EBUSY,
        Refusal::TimedOut(_) => OVERDUE,
        Refusal::Interrupted => Errno::EINTR,
        // The session was ended while the call was under way: what was open is lost.
        Refusal::Capability(Fault::Fenced) => Errno::ESTALE,
        // Not the program's fault: it was allowed to open the file. The log and the server's status say who refused it.
        Refusal::Capability(_) => Errno::EIO,
        Refusal::Malformed(_) => Errno::EIO, // a bug of ours; the log has the message
    }
}

/// Refusals that tell of a failure below, not of what the program asked: worth a line in the log.
pub fn is_failure(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::ObjectDamaged { .. }
            | Refusal::TargetDown { .. }
            | Refusal::StoreFailed(_)
            | Refusal::TimedOut(_)
            | Refusal::Capability(_)
            | Refusal::Malformed(_)
    )
}
