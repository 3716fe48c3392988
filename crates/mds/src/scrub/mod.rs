//! # scrub: finds damaged bytes before anybody needs them, and repairs them from copies
//!
//! Owns   the schedule on which all objects are verified, the comparison of a stripe's members, the choice of the bytes that repair others.
//! Never  writes bytes that do not match the checksum of the damaged block (the target makes sure), or decides between two members that both match
//!        theirs.
//! Enter  at `ScrubTask::run` and `DamageTask::run`.
//!
//! Targets read their objects themselves and return digests. A block that does not match its checksum is repaired in place from a member that
//! matches its own, also while the file is written. A member that is missing or too short becomes stale, while the file rests, and the resync
//! task fills it.

mod copies;
mod damage_task;
mod file;
mod pacer;
mod task;

pub use damage_task::DamageTask;
pub use file::FileScrubber;
pub use task::ScrubTask;
