//! The kernel's requests, one function each, grouped as the kernel groups them.

pub mod attrs;
pub mod data;
pub mod dirs;
pub mod flags;
pub mod locks;
pub mod names;
pub mod open;
pub mod space;
pub mod xattrs;

use gupfs_proto::Refusal;

/// What a request's function gives back before its errno is decided.
pub type Outcome<T> = Result<T, Refusal>;
