//! # names: directories and attributes
//!
//! Owns   the requests about names, attributes, extended attributes, layouts and space; overlaying their replies with the
//!        attributes of files whose write lease this client has.
//! Never  checks permissions or changes a name by itself: the metadata server does.
//! Enter  at `Client::lookup`, `Client::getattr`, `Client::readdir`.

mod atime;
mod attrs;
mod create;
mod layouts;
mod lookup;
mod open_dirs;
mod readdir;
mod remove;
mod space;
mod xattrs;

pub(crate) use open_dirs::OpenDirs;
pub use readdir::{DirListing, EntryName, ListedEntry};
pub use space::{FileSystemSpace, TargetSpace};
