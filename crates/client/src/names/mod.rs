//! # names: directories and attributes
//!
//! Owns   the requests about names, attributes, extended attributes and layouts; overlaying their replies with the
//!        attributes of files whose write lease this client has.
//! Never  checks permissions or changes a name by itself: the metadata server does.
//! Enter  at `Namespace::lookup`, `Namespace::getattr`, `Namespace::readdir`.

mod atime;
mod attrs;
mod create;
mod layouts;
mod lookup;
mod open_dirs;
mod readdir;
mod remove;
mod xattrs;

pub use readdir::{DirListing, EntryName, ListedEntry};

use crate::file::{FileLeases, Files, WriteBehind};
use crate::inodes::InodeTable;
use crate::lookups::Lookups;
use crate::metrics::Counters;
use crate::open_dirs::OpenDirs;
use crate::options::{AtimeMode, SessionOptions};
use crate::session::MdsSession;
use std::sync::Arc;

pub struct Namespace {
    mds: Arc<MdsSession>,
    /// The attributes of active inodes here are newer than the server's.
    inodes: Arc<InodeTable>,
    leases: Arc<FileLeases>,
    write_behind: Arc<WriteBehind>,
    lookups: Arc<Lookups>,
    open_dirs: Arc<OpenDirs>,
    atime: AtimeMode,
    directory_atime: bool,
    counters: Arc<Counters>,
}

impl Namespace {
    pub fn new(
        mds: Arc<MdsSession>,
        inodes: Arc<InodeTable>,
        files: &Files,
        lookups: Arc<Lookups>,
        open_dirs: Arc<OpenDirs>,
        options: &SessionOptions,
        counters: Arc<Counters>,
    ) -> Namespace {
        Namespace {
            mds,
            inodes,
            leases: files.leases.clone(),
            write_behind: files.write_behind.clone(),
            lookups,
            open_dirs,
            atime: options.atime,
            directory_atime: options.directory_atime,
            counters,
        }
    }
}
