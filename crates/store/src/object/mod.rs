//! # object: file data of one OST, kept through a power loss
//!
//! Owns   one target: a directory of object files, its superblock, the list of clean regions with their checksums.
//! Never  opens a socket; never knows a file's name or a user's rights; never picks a replica.
//! Enter  at `Objects::open` and `Objects::adopt`, then `Objects::write`.
//!
//! An acknowledged change survives the end of the process; a synced change survives a power loss.

mod adopt;
mod allocate;
mod background;
mod clock_cache;
mod counters;
mod damage_list;
mod dirs;
mod dirty_queue;
mod dirty_regions;
mod edge_blocks;
mod error;
mod files;
mod flush_checksums;
mod free_space;
mod in_flight;
mod join;
pub mod limits;
mod list;
mod lost_found;
mod make_dirty;
#[expect(
    clippy::module_inception,
    reason = "both modules are named for the object that they hold"
)]
mod object;
mod objects;
mod owner;
mod paths;
mod quarantine;
mod read;
mod read_ahead;
mod record;
mod records;
mod region;
mod remove;
mod scrub;
mod seek;
mod stat;
mod status;
mod superblock;
mod sync;
mod sync_point;
mod table;
mod target;
mod truncate;
mod write;
mod write_behind;
mod zero;

pub use allocate::AllocateRequest;
pub use counters::OperationCounts;
pub use error::{OpenError, OpenErrorKind};
pub use lost_found::LostFoundUsage;
pub use objects::{Objects, OpenFileLimits, TargetId, TargetOptions};
pub use read::ObjectData;
pub use scrub::{ScrubOptions, ScrubReport, ScrubScope};
pub use status::{OstState, OstStatus};
pub use write::WriteRequest;
