//! Why an operation was refused: kinds a caller can act on. errno is decided elsewhere, in one table (`mount`).

use crate::capability::Fault;
use crate::ids::{ObjectId, OstId, OwnerEpoch};
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    // What the standard names.
    #[error("no such file or directory")]
    NotFound,
    #[error("exists already")]
    Exists,
    #[error("not a directory")]
    NotDirectory,
    #[error("is a directory")]
    IsDirectory,
    #[error("directory is not empty")]
    NotEmpty,
    #[error("permission denied")]
    Denied,
    #[error("operation not permitted")]
    NotPermitted,
    #[error("name is longer than 255 bytes")]
    NameTooLong,
    #[error("invalid argument")]
    Invalid,
    #[error("a directory cannot move into itself")]
    IntoItself,
    #[error("across volumes")]
    CrossVolume,
    #[error("too many links")]
    TooManyLinks,
    #[error("too many levels of symbolic links")]
    Loop,
    #[error("busy")]
    Busy,
    #[error("file too large")]
    TooLarge,
    #[error("no space left")]
    NoSpace,
    #[error("quota exceeded")]
    QuotaExceeded,
    #[error("read-only")]
    ReadOnly,
    #[error("no such attribute")]
    NoAttribute,
    #[error("the buffer is too small")]
    TooSmall,
    #[error("the value is too large")]
    ValueTooLarge,
    #[error("beyond the last data or hole")]
    NoMoreData,
    #[error("not supported")]
    NotSupported,
    #[error("no such device or address")]
    NoDevice,
    #[error("another holds a lock that excludes it")]
    WouldBlock,
    #[error("who holds the lock waits for one of the caller's")]
    Deadlock,
    #[error("there are too many locks: {0}")]
    TooManyLocks(String),
    // What happens to a distributed system.
    /// The inode is gone, or was never there: a handle to it is stale.
    #[error("stale handle")]
    Stale,
    /// The object should be there and is not, or its bytes do not match their checksum.
    #[error("object {object} on ost{ost}: {what}")]
    ObjectDamaged {
        ost: OstId,
        object: ObjectId,
        what: ObjectDamage,
    },
    /// The target cannot serve: it is absent, older than it was, or failed.
    #[error("ost{ost} is not usable: {why}")]
    TargetDown { ost: OstId, why: String },
    /// A store failed; it stays closed until the server is started again.
    #[error("store failed: {0}")]
    StoreFailed(String),
    /// The server cannot take more now.
    #[error("the server is busy")]
    Overloaded,
    #[error("the deadline has passed while waiting for {0}")]
    TimedOut(String),
    #[error("interrupted")]
    Interrupted,
    /// The session that asks has ended, or was ended: what it held is not its own any more. It opens a new one.
    #[error("the session has ended")]
    SessionEnded,
    /// The server was started again since this client last heard of it: the client comes back first (`meta::Op::Return`).
    #[error("the server was started again: this is its life {0}")]
    AnotherLife(OwnerEpoch),
    /// The target does not believe that who asks may do this.
    #[error("the capability was refused: {0}")]
    Capability(Fault),
    /// A request that no correct client sends.
    #[error("malformed request: {0}")]
    Malformed(String),
    /// Somebody may count on bytes that were not synced: that comes first (`meta::Op::Spilled`).
    #[error("must be synced first")]
    NotSynced,
}

/// What is wrong with an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum ObjectDamage {
    #[error("is missing")]
    Missing,
    #[error("bytes do not match their checksum")]
    Checksum,
    #[error("is shorter than it was")]
    Short,
    #[error("could not be read")]
    Unreadable,
    /// Told by fsync: writes that were answered before the target's host lost power.
    #[error("may have lost what was written to it: its server lost power before that was synced")]
    Unsynced,
}
