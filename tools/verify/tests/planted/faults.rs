//! Faults that can be switched on, one at a time.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// After a rename the other mount finds for a while what the name referred to before.
    OldNameAfterRename,
    /// After chmod the other mount sees the old mode for a while.
    OldMode,
    /// An append is answered and not done.
    LostAppend,
    /// Two appends get the same place.
    AppendsOverlap,
    /// Of a write across a page border the second part is lost.
    TornWrite,
    /// A name that was removed comes back.
    ResurrectedName,
    /// The other mount sees the size of before.
    SizeGoesBack,
    /// Of ten thousand changes of cached blocks one does not reach the other mount's cache.
    MissedInvalidation,
    /// A rename takes the old file away first and puts the new one there later.
    NonAtomicRename,
    /// A listing leaves out a name that is there all the time.
    ListingMissesName,
    /// A lock is given that another holds.
    LockGrantedTwice,
    /// An exclusive creation succeeds where another mount has just made the name.
    ExclusiveTwice,
    /// An unlink is answered and not done.
    UnlinkNotDone,
    /// What a truncation cut off is there again when the file grows.
    CutBytesReturn,
    /// A new link is not counted for a while.
    LinkNotCounted,
    /// An exchange moves one of the two, and loses the other.
    HalfExchange,
    /// A rename leaves the old name behind.
    RenameLeavesSource,
    /// setxattr is answered and not done.
    LostXattr,
    /// The other mount sees the time of before.
    TimeGoesBack,
    /// A write is answered before the other mount can see it.
    WriteBehind,
    /// A read shows zeros where bytes are.
    ZerosForBytes,
    /// fallocate punches nothing.
    PunchKeepsBytes,
    /// One change in twenty leaves the other mount's kernel its pages. Not in `ALL`: only calls that pass pages on show it.
    PagesKept,
    /// Of a file that is seconds old the other mount sees the attributes of before. Not in `ALL`, as the next two: a round is over by then.
    OldFileOldAttributes,
    /// Of a file that is seconds old the other mount sees the bytes of before.
    OldFileOldBytes,
    /// In a directory that is seconds old the other mount finds a name that was removed.
    OldDirOldNames,
    /// A chmod is answered after seconds. Not in `ALL`: it takes a deadline to find it.
    Hangs,
}

use Fault::*;

pub const ALL: [Fault; 22] = [
    OldNameAfterRename,
    OldMode,
    LostAppend,
    AppendsOverlap,
    TornWrite,
    ResurrectedName,
    SizeGoesBack,
    MissedInvalidation,
    NonAtomicRename,
    ListingMissesName,
    LockGrantedTwice,
    ExclusiveTwice,
    UnlinkNotDone,
    CutBytesReturn,
    LinkNotCounted,
    HalfExchange,
    RenameLeavesSource,
    LostXattr,
    TimeGoesBack,
    WriteBehind,
    ZerosForBytes,
    PunchKeepsBytes,
];

/// The fault that is on, and how often it could have struck.
pub struct Switch {
    on: Option<Fault>,
    chances: AtomicU64,
}

impl Switch {
    pub fn new(on: Option<Fault>) -> Switch {
        Switch {
            on,
            chances: AtomicU64::new(0),
        }
    }

    pub fn is(&self, fault: Fault) -> bool {
        self.on == Some(fault)
    }

    /// Whether it strikes now: once in so many chances.
    pub fn strikes(&self, fault: Fault, one_in: u64) -> bool {
        self.is(fault) && self.chances.fetch_add(1, Ordering::Relaxed) % one_in == one_in - 1
    }
}
