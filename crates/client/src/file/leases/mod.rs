//! # leases: the state of an inode here and at the metadata server
//!
//! Owns   loading an inode's state, acquiring and releasing its write lease, attribute reports, changes of its size.
//! Never  touches an object but through `ObjectIo`.
//! Enter  at `FileLeases::acquire_write_lease`, `FileLeases::load`, `FileLeases::report_attrs`.

mod acquire;
mod callback;
mod concurrent;
mod flags;
mod inline;
mod inode_bytes;
mod leftovers;
mod load;
mod pages;
mod release;
mod report;
mod truncate;

pub use acquire::PiggybackedWrite;
pub use inline::InlineWrite;

use super::objects::ObjectIo;
use crate::inodes::InodeTable;
use crate::metrics::Counters;
use crate::session::MdsSession;
use gupfs_platform::{Clock, Platform, Tasks};
use std::sync::{Arc, Weak};

pub struct FileLeases {
    mds: Arc<MdsSession>,
    inodes: Arc<InodeTable>,
    objects: Arc<ObjectIo>,
    clock: Clock,
    tasks: Tasks,
    counters: Arc<Counters>,
    /// For tasks that go on by themselves.
    this: Weak<FileLeases>,
}

impl FileLeases {
    pub fn new(
        mds: Arc<MdsSession>,
        inodes: Arc<InodeTable>,
        objects: Arc<ObjectIo>,
        platform: &Platform,
        counters: Arc<Counters>,
    ) -> Arc<FileLeases> {
        Arc::new_cyclic(|this| FileLeases {
            mds,
            inodes,
            objects,
            clock: platform.clock.clone(),
            tasks: platform.tasks.clone(),
            counters,
            this: this.clone(),
        })
    }
}
