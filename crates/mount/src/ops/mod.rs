//! FUSE requests, one function each, in the kernel's groups.

pub mod attrs;
pub mod data;
pub mod dirs;
pub mod flags;
pub mod locks;
pub mod names;
pub mod open;
pub mod space;
pub mod xattrs;

use gupfs_proto::FsError;

/// A request's result before its error becomes an errno.
pub type OpResult<T> = Result<T, FsError>;
