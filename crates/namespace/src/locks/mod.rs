//! # locks: flock, fcntl and OFD locks of all sessions
//!
//! Owns   who holds what, who waits for what, in which order; that each request is done once. In memory only: a lock ends
//!        with its session, and after a start its session says it again.
//! Never  knows a clock, waits, or who lives.
//! Enter  at `Table::ask`; a client that keeps its own locks in mind uses `FileLocks` alone.

mod deadlock;
mod file;
pub mod limits;
#[cfg(test)]
mod model;
mod table;

pub use file::{FileLocks, Held};
pub use table::{Grant, Table, Waiter};
