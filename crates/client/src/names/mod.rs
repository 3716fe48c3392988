//! # names: directories and attributes
//!
//! Owns   the questions about names, attributes, extended attributes, layouts and space; what of their answers is
//!        laid over by what this client knows better.
//! Never  checks permission or changes a name by itself: the metadata server does.
//! Enter  at `Client::lookup`, `Client::getattr`, `Client::readdir`.

mod attrs;
mod layouts;
mod list;
mod look;
mod make;
mod open_dirs;
mod remove;
mod space;
mod touch;
mod xattrs;

pub use list::{EntryName, Listed, Listing};
pub(crate) use open_dirs::OpenDirs;
pub use space::{Room, Space};
