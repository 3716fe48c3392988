//! # inodes: the files that are open or have a write lease here
//!
//! Owns   the table of active inodes, each with its state and range locks; open files; the unsynced objects of closed files.
//! Never  calls a server: every state changes by what its caller passes.
//! Enter  at `InodeTable::pin`, `InodeState`, `OpenFileTable`.

mod closed_unsynced;
mod open_files;
mod range_locks;
mod state;
mod table;

pub use closed_unsynced::ClosedUnsynced;
pub use open_files::{Durability, OpenFile, OpenFileFlags, OpenFileTable};
pub use range_locks::RangeLockGuard;
pub use state::{
    DataLocation, InodeState, MemberObject, ObjectSpan, ReadPlan, UnsentRead, UnsentTotal,
    UnsyncedObject, WriteLockRange,
};
pub use table::{ActiveInode, AttrVersion, InodePin, InodeTable, OverlaidAttr};
