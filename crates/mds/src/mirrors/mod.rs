//! # mirrors: which members of mirrored stripes are stale, and bringing them up to date
//!
//! Owns   the decision that a member is stale because an operation of the server cannot reach it; the background task that copies a stripe's
//!        bytes to its stale members.
//! Never  decides for a client that writes a file: the client says which members its writes have missed (`MetaOp::MarkStale`).
//! Enter  at `MirrorKeeper::leave_out_unreachable`, `ResyncTask::run`.

mod copy;
mod left_out;
mod resync;

pub use left_out::MirrorKeeper;
pub use resync::ResyncTask;
