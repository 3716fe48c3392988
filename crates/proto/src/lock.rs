//! Advisory locks of programs: flock(2), fcntl(2) record locks, open file description locks.
//!
//! Lock requests change no record and no log. They carry sequence numbers of their own (`LockSeq`), by which the server executes
//! each request exactly once (docs/decisions, "The metadata server manages locks of several mounts").

use crate::error::FsError;
use crate::ids::InodeId;
use serde::{Deserialize, Serialize};

/// The two families of locks. A lock of one family never conflicts with a lock of the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum LockFamily {
    /// fcntl(2) lock on a byte range; its owner is a process or an open file description (OFD).
    Record,
    /// flock(2) lock on a whole file; its owner is an open file description.
    Flock,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum LockMode {
    Shared,
    Exclusive,
}

/// A byte range of a file, including `last`. A range without an end (`l_len` = 0) ends at `LockRange::END`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct LockRange {
    pub first: u64,
    pub last: u64,
}

impl LockRange {
    /// OFFSET_MAX of Linux.
    pub const END: u64 = i64::MAX as u64;
    pub const WHOLE: LockRange = LockRange {
        first: 0,
        last: LockRange::END,
    };

    pub fn overlaps(self, other: LockRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    pub fn is_valid(self) -> bool {
        self.first <= self.last && self.last <= LockRange::END
    }
}

/// File, family and owner of a lock. Locks of one holder never conflict with each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct LockHolder {
    pub ino: InodeId,
    pub family: LockFamily,
    /// The lock owner number from the kernel of the session's host: a process or an open file description.
    pub owner: u64,
}

/// An advisory lock, held or requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AdvisoryLock {
    pub holder: LockHolder,
    pub range: LockRange,
    pub mode: LockMode,
    /// The process that acquired the lock, on the session's host.
    pub pid: u32,
}

/// Sequence number of a session's lock request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LockSeq {
    /// A session uses each number for one request. The server does not execute a retransmission with the same number again.
    pub number: u64,
    /// The session has the replies to all numbers below this: the server ignores a late copy of such a request.
    pub replied_below: u64,
}

/// A request about locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LockRequest {
    /// `wait`: if a conflicting lock is held, the reply is `LockOutcome::Queued`, and the server sends
    /// `CallbackRequest::LockGranted` when it has granted the lock.
    Acquire {
        seq: LockSeq,
        lock: AdvisoryLock,
        wait: bool,
    },
    Release {
        seq: LockSeq,
        holder: LockHolder,
        range: LockRange,
    },
    /// The session withdraws its waiting `Acquire` with this number.
    Cancel { seq: LockSeq, acquire: u64 },
    /// Returns a lock that conflicts with this one (F_GETLK).
    Test { lock: AdvisoryLock },
}

/// The reply to a `LockRequest`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LockReply {
    /// Grant sequence: the number of changes that the server has made to this session's locks, including this one. It orders
    /// replies and `LockGranted` callbacks. 0 for a test.
    pub grant_seq: u64,
    /// # Errors
    /// `WouldBlock`, `Deadlock`, `TooManyLocks`.
    pub outcome: Result<LockOutcome, FsError>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LockOutcome {
    Done,
    /// The request waits in the lock's queue.
    Queued,
    /// To `Cancel`: the server had granted the lock before, with this grant sequence.
    WasGranted(u64),
    /// To `Test`: the first conflicting lock. Its pid is 0 if another session holds it.
    Conflict(Option<AdvisoryLock>),
}
