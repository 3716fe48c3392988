//! # leases: which session may answer what from its memory
//!
//! Owns   every lease on metadata, the numbers of the grants, the keys that are closed to grants, and which directories are shared.
//!        In memory only: after a start no session has a lease.
//! Never  reads a clock, sends a callback, waits, or decides whether a session is alive.
//! Enter  at `LeaseTable::grant`; for a batch at `changes_of`, then `LeaseTable::conflicts`.
//!
//! What a driver does with a batch that an operation is about to stage, under the lock under which it was applied:
//!
//! 1. `changes_of` gives the keys, and `LeaseTable::conflicts` the leases of other sessions on them. Without any it stages the batch,
//!    calls `note_changes`, and grants the requester leases on what the reply says.
//! 2. Else it stages nothing: `LeaseTable::close` closes the keys to grants. It waits until `LeaseConflicts::not_before`, sends each session its
//!    revocation, and waits until each has answered (`revoked`) or has ended (`drop_session`). Then it applies the operation again.
//! 3. When the batch is staged, or the operation ends otherwise, it calls `reopen`.
//!
//! Two operations may close the same key. Closing stops grants, never changes: each operation stages its batch when no other session has a
//! lease on its keys.

mod changes;
mod closed;
mod excess;
mod key;
pub mod limits;
mod session;
mod shared;
mod table;
#[cfg(test)]
mod tests;

pub use changes::changes_of;
pub use closed::ClosedKeysId;
pub use table::{LeaseConflicts, LeaseCounts, LeaseTable};
