//! # fake: a disk that loses unsynced data in a crash
//!
//! Owns   the state after a crash: of unsynced writes an arbitrary subset of 512-byte sectors, each in any of its
//!        versions since the last sync; of creations, renames and removals in a directory that was not synced an
//!        arbitrary subset, each whole or not at all; everything that was synced.
//! Never  executes a call through a handle of a dead process, not even from `Drop`.
//! Enter  at `FakeDisk::new`; `FakeDisk::disk` returns a handle of the current process.

mod calls;
mod content;
mod control;
mod dirs;
mod file;
mod lock;
mod options;
mod state;
mod tree;
mod write_errors;

pub use calls::{CallKind, Counters, Death};
pub use control::FakeDisk;
pub use options::FakeOptions;

pub(super) use dirs::FakeTree;
pub(super) use file::FakeFile;
pub(super) use lock::FakeLock;
