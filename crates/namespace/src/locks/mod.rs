//! # locks: flock, fcntl and OFD locks of all sessions
//!
//! Owns   the held locks, the queue of waiting requests, and the stored replies, so that each request executes once.
//!        In memory only: a lock ends with its session, and after a server start the session reclaims it.
//! Never  reads a clock, blocks, or decides whether a session is alive.
//! Enter  at `LockTable::request`; a client that tracks its own locks uses only `FileLocks`.

mod deadlock;
mod file;
pub mod limits;
mod table;
#[cfg(test)]
mod tests;

pub use file::{FileLocks, HeldLock};
pub use table::{LockGrant, LockTable, LockWaiter};
