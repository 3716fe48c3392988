//! # disk: a disk that loses unsynced data in a crash
//!
//! Owns   the state after a crash: of unsynced writes an arbitrary subset of 512-byte sectors, each in any of its
//!        versions since the last sync; of creations, renames and removals in a directory that was not synced an
//!        arbitrary subset, each whole or not at all; everything that was synced.
//! Never  executes a call through a handle of a dead process, not even from `Drop`.
//! Enter  at `FakeDisk::new`; `FakeDisk::disk` returns a handle of the current process.

mod content;
mod control;
mod handles;
mod state;
mod tree;

pub use control::{CallKind, Counters, Death, FakeDisk, FakeOptions};
pub(crate) use handles::{FakeFile, FakeLock, FakeTree};
