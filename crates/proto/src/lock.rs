//! Locks of programs: flock(2), fcntl(2) record locks, open file description locks.
//!
//! They change no record and no log. What is asked about them has numbers of its own, which make that it is done once
//! (docs/decisions, "Locks over the metadata server").

use crate::ids::InodeId;
use crate::refusal::Refusal;
use serde::{Deserialize, Serialize};

/// The two kinds of locks, which know nothing of each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// fcntl(2), of bytes: its owner is a process, or an open file (OFD).
    Record,
    /// flock(2), of whole files: its owner is an open file.
    Flock,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Mode {
    Shared,
    Exclusive,
}

/// Bytes of a file, the last one included. What reaches beyond every end ends at `Extent::END`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Extent {
    pub first: u64,
    pub last: u64,
}

impl Extent {
    /// OFFSET_MAX of Linux.
    pub const END: u64 = i64::MAX as u64;
    pub const WHOLE: Extent = Extent {
        first: 0,
        last: Extent::END,
    };

    pub fn overlaps(self, other: Extent) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    pub fn is_valid(self) -> bool {
        self.first <= self.last && self.last <= Extent::END
    }
}

/// On which file, of which kind, and whose: locks of one holder never exclude each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Holder {
    pub ino: InodeId,
    pub kind: Kind,
    /// A number of the kernel of the session's host: a process or an open file.
    pub owner: u64,
}

/// A lock that is held, or wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lock {
    pub holder: Holder,
    pub extent: Extent,
    pub mode: Mode,
    /// The process that took it, on its host.
    pub pid: u32,
}

/// Which of a session's requests it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Never used twice by a session. Asked again with it, a request is the same and is not done again.
    pub number: u64,
    /// All numbers below this are answered: a copy of such a request that comes later is not done.
    pub answered_below: u64,
}

/// What is asked about locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Ask {
    /// `waits`: if it cannot be had now the answer is `Word::Waits`, and `recall::Request::Granted` comes when it was taken.
    Take {
        order: Order,
        lock: Lock,
        waits: bool,
    },
    Free {
        order: Order,
        holder: Holder,
        extent: Extent,
    },
    /// The request of number `take` waits no more.
    Cancel { order: Order, take: u64 },
    /// What is in the way of this lock.
    Test { lock: Lock },
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Said {
    /// How many things the server had done to this session's locks after this one: their order. 0 for a test.
    pub turn: u64,
    /// # Refusals
    /// `WouldBlock`, `Deadlock`, `TooManyLocks`.
    pub word: Result<Word, Refusal>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Word {
    Done,
    /// It is in the queue.
    Waits,
    /// To Cancel: it was granted before, as the thing of this turn.
    WasGranted(u64),
    /// To Test: the first lock in the way. Its pid is 0 if it is another session's.
    InTheWay(Option<Lock>),
}
