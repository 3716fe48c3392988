//! # disk: a disk that forgets what it may forget
//!
//! Owns   what survives a crash: of unsynced writes an arbitrary subset of 512-byte sectors, each in any of its
//!        versions since the last sync; of creations, renames and removals in a directory that was not synced an
//!        arbitrary subset, each whole or not at all; everything synced.
//! Never  lets a dead process's handle do anything, not even from `Drop`.
//! Enter  at `FakeDisk::new`; `FakeDisk::disk` gives the handle of the process that lives now.

mod content;
mod control;
mod handles;
mod names;
mod state;

pub use control::{CallKind, Counters, Death, FakeDisk, FakeOptions};
pub(crate) use handles::{FakeFile, FakeLock, FakeTree};
