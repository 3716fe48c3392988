//! # object: file data of one OST, kept through a power loss
//!
//! Owns   one target: a directory of object files, its superblock, the list of clean regions with their checksums.
//! Never  opens a socket; never knows a file's name or a user's rights; never picks a replica.
//! Enter  at `Objects::open` and `Objects::adopt`, then `Objects::write`.
//!
//! An acknowledged change survives the end of the process; a synced change survives a power loss.
//!
//! `target` composes a target of its parts. An operation gets only those that it needs: `access::ReadAccess` to read an
//! object, `access::WriteAccess` to change one. The parts, from the bottom up:
//! - `identity` (superblock, stamp, owner, write verifier), `closing` (why the target is closed), `damage_list`;
//! - `records` (checksums and owners, in a log with an index), `table` (objects in memory), `files`, `dirs`;
//! - `syncer`, `loader` (object from files and record), `reader`;
//! - `region_loader`, `clean_regions`, `dirty_queue`, `dirty_log` (regions become dirty), `flush_checksums` (and clean);
//! - `write_slots` (numbered writes that were executed), `recover_writes` (after a kill);
//! - `space_ledger` (space that sessions have reserved), `free_space`, `lost_found`, `listing`, `scrubber`, and `background` over all of them.

mod access;
mod adopt;
mod allocate;
mod background;
mod background_tasks;
mod clean_regions;
mod clock_cache;
mod closing;
mod counters;
mod damage_list;
mod digest;
mod dirs;
mod dirty_log;
mod dirty_queue;
mod early_write_back;
mod edge_blocks;
mod error;
mod files;
mod flush_checksums;
mod free_space;
mod identity;
mod in_flight;
mod join;
pub mod limits;
mod list;
mod listing;
mod loader;
mod lost_found;
#[expect(
    clippy::module_inception,
    reason = "both modules are named for the object that they hold"
)]
mod object;
mod object_regions;
mod objects;
mod options;
mod owner;
mod paths;
mod quarantine;
mod read;
mod read_ahead;
mod reader;
mod record;
mod records;
mod recover_writes;
mod region;
mod region_loader;
mod remove;
mod repair;
mod reserve;
mod scrub;
mod scrubber;
mod seek;
mod segment_file;
mod space_ledger;
mod stat;
mod status;
mod superblock;
mod sync;
mod sync_point;
mod syncer;
mod table;
mod target;
mod truncate;
mod write;
mod write_numbered;
mod write_slots;
mod zero;

pub use allocate::AllocateRequest;
pub use counters::OperationCounts;
pub use error::{OpenError, OpenErrorKind};
pub use lost_found::LostFoundUsage;
pub use objects::Objects;
pub use options::{OpenFileLimits, TargetId, TargetOptions};
pub use read::ObjectData;
pub use scrubber::{ScrubOptions, ScrubReport, ScrubScope};
pub use status::{OstState, OstStatus};
pub use write::WriteRequest;
