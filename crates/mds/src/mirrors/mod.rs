//! # mirrors: which members of mirrored stripes are stale, and bringing them up to date
//!
//! Owns   the decision that a member is stale because an operation of the server cannot reach it; the background tasks that give members
//!        on lost OSTs other OSTs, move the objects of files away from OSTs that are drained, and copy a stripe's bytes to its stale members.
//! Never  decides for a client that writes a file: the client says which members its writes have missed (`MetaOp::MarkStale`).
//! Enter  at `MirrorKeeper::leave_out_unreachable`, `ReplacementTask::run`, `ResyncTask::run`.

mod copy;
mod drain_pace;
mod left_out;
mod lost_members;
mod member_replacer;
mod moves;
mod replacement;
mod resync;
mod resync_pace;
mod writers;

pub use left_out::{FailedMembers, MirrorKeeper};
pub use lost_members::has_lost_bytes;
pub use moves::{bytes_to_move, can_leave};
pub use replacement::ReplacementTask;
pub use resync::{ResyncTask, owner_of};
pub use writers::{FileWriters, HeldWriters, HoldWriters};
