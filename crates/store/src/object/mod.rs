//! # object: bytes that must still be there after a power cut
//!
//! Owns   one target: a directory of object files, its superblock, which regions are clean and their checksums.
//! Never  opens a socket, knows a file's name or a user's rights, picks a replica.
//! Enter  at `Objects::open` and `Objects::adopt`, then `Objects::write`.
//!
//! Everything here survives the end of the process once it was answered, and a power cut once it was synced.

mod adopt;
mod ahead;
mod allocate;
mod behind;
mod chores;
mod counters;
mod cut;
mod damage;
mod dirs;
mod edges;
mod error;
mod files;
mod flight;
pub mod limits;
mod list;
mod lost_found;
mod marking;
mod marks;
#[expect(
    clippy::module_inception,
    reason = "the room is named for what it keeps"
)]
mod object;
mod objects;
mod owner;
mod place;
mod read;
mod record;
mod records;
mod region;
mod remove;
mod room;
mod scrub;
mod second_chance;
mod seek;
mod set_aside;
mod settle;
mod stat;
mod status;
mod superblock;
mod sync;
mod sync_point;
mod table;
mod target;
mod together;
mod unsettled;
mod write;
mod zero;

pub use allocate::Allocate;
pub use counters::Served;
pub use error::{OpenError, OpenErrorKind};
pub use lost_found::LostFound;
pub use objects::{Engine, Objects, OpenFiles, Whose};
pub use read::Got;
pub use scrub::{Scrub, Scrubbed, Verify};
pub use status::{TargetState, TargetStatus};
pub use write::Write;
