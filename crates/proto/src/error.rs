//! The errors of the protocol: the reason why a server failed a request, as kinds that a caller can act on. One table, `errno`,
//! maps them to the numbers of Linux.

use crate::ids::{ObjectId, OstId, OwnerEpoch};
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum FsError {
    // Errors of POSIX.
    #[error("no such file or directory")]
    NotFound,
    #[error("already exists")]
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
    #[error("a directory cannot be moved into itself")]
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
    #[error("a conflicting lock is held")]
    WouldBlock,
    #[error("deadlock: the lock's holder waits for a lock of the caller")]
    Deadlock,
    #[error("too many locks: {0}")]
    TooManyLocks(String),
    // Errors of a distributed system.
    /// The inode was removed or never existed: a handle to it is stale.
    #[error("stale handle")]
    Stale,
    /// An object that must exist is missing, or its bytes do not match their checksum.
    #[error("object {object} on ost{ost}: {damage}")]
    ObjectDamaged {
        ost: OstId,
        object: ObjectId,
        damage: ObjectDamage,
    },
    /// The target cannot serve: it is absent, an older copy of itself, or failed.
    #[error("ost{ost} is not usable: {reason}")]
    TargetDown { ost: OstId, reason: String },
    /// A store failed; it stays closed until the server is restarted.
    #[error("store failed: {0}")]
    StoreFailed(String),
    /// The server has no capacity for the request now.
    #[error("the server is busy")]
    Overloaded,
    #[error("timed out while waiting for {0}")]
    TimedOut(String),
    #[error("interrupted")]
    Interrupted,
    /// The requesting session has ended, by itself or by the server; its locks and leases are released. The client opens a new
    /// session.
    #[error("the session has ended")]
    SessionEnded,
    /// The server was restarted since this client's last reply from it. The client first replays its changes and reclaims its
    /// locks (`MetaOp::Replay`).
    #[error("the server was restarted: it is now instance {0}")]
    OtherInstance(OwnerEpoch),
    /// The target rejected the credentials of the request.
    #[error("the server rejected the credentials: {0}")]
    Capability(CapabilityFault),
    /// A request that no correct client sends.
    #[error("malformed request: {0}")]
    Malformed(String),
    /// A program may rely on bytes that were not synced: the client syncs them first (`MetaOp::SpillInline`).
    #[error("must be synced first")]
    NotSynced,
}

/// Damage of an object.
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
    /// fsync returns it: the target acknowledged the writes and then its host lost power.
    #[error("may have lost writes: its server lost power before it had synced them")]
    Unsynced,
}

/// The reason why a server rejects the credentials of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum CapabilityFault {
    #[error("the request has none, and one is needed")]
    Missing,
    #[error("it is forged, or issued to another session or for another file")]
    Forged,
    #[error("it has expired")]
    Expired,
    #[error("its session has ended")]
    Fenced,
    #[error("it does not grant the right for this operation")]
    Rights,
}
