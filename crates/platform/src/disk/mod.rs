//! # disk: one directory tree that keeps bytes
//!
//! Owns   the handles `Disk` (a tree), `DiskFile`, `DiskLock`, and what stands behind them on Linux.
//! Never  retries, caches, or knows what a file means.
//! Enter  at `Disk::real`.
//!
//! Paths are relative to the tree's root, `/`-separated, without `.` and `..` parts; "." is the root itself.
//!
//! What runs where: opening, writing, stat and rename run on the calling thread, since the page cache and the journal
//! take them without waiting for the device; syncs, removals, allocation and cutting go to the pool of threads; reads
//! as their `ReadHow` says.

mod error;
mod file;
mod handle;
mod how;
mod real;

pub use error::{DiskError, DiskErrorKind};
pub use file::{DiskFile, DiskLock};
pub use handle::Disk;
pub use how::{Advice, DirEntry, EntryKind, OpenHow, ReadHow, Space, Stat};

pub type Result<T> = std::result::Result<T, DiskError>;

#[cfg(feature = "fake")]
pub(crate) use file::{FileSource, LockSource};
#[cfg(feature = "fake")]
pub(crate) use real::check_path;
