//! # disk: files in one directory tree
//!
//! Owns   the handles `Disk` (a tree), `DiskFile`, `DiskLock`, and their implementation on Linux.
//! Never  retries, caches, or interprets the contents of a file.
//! Enter  at `Disk::real`.
//!
//! Paths are relative to the tree's root, `/`-separated, without `.` and `..` parts; "." is the root itself.
//!
//! Threads: open, write, stat and rename run on the calling thread, since the page cache and the journal accept them without
//! waiting for the device; sync, remove, allocate and truncate run on the thread pool; reads run as their `OnCacheMiss` says.

mod error;
#[cfg(feature = "fake")]
pub(crate) mod fake;
mod file;
mod handle;
mod lock;
mod options;
mod path;
mod real;

pub use error::{DiskError, DiskErrorKind};
pub use file::DiskFile;
pub use handle::Disk;
pub use lock::DiskLock;
pub use options::{Advice, DiskEntry, DiskSpace, DiskStat, EntryKind, OnCacheMiss, OpenHow};

pub type Result<T> = std::result::Result<T, DiskError>;
