//! # leases: the state of an inode here and at the metadata server
//!
//! Owns   loading an inode's state, acquiring and releasing its write lease, attribute reports, changes of its size.
//! Never  touches an object but through `ObjectIo`.
//! Enter  at `FileLeases::acquire_write_lease`, `FileLeases::load`, `FileLeases::report_attrs`.

mod acquire;
mod callback;
mod flags;
mod inline;
mod leftovers;
mod load;
mod release;
mod report;
mod truncate;

pub use acquire::PiggybackedWrite;
pub use inline::InlineWrite;

use super::objects::ObjectIo;
use crate::inodes::InodeTable;
use crate::metrics::Counters;
use crate::session::MdsSession;
use gupfs_platform::Clock;
use std::sync::Arc;

pub struct FileLeases {
    mds: Arc<MdsSession>,
    inodes: Arc<InodeTable>,
    objects: Arc<ObjectIo>,
    clock: Clock,
    counters: Arc<Counters>,
}

impl FileLeases {
    pub fn new(
        mds: Arc<MdsSession>,
        inodes: Arc<InodeTable>,
        objects: Arc<ObjectIo>,
        clock: Clock,
        counters: Arc<Counters>,
    ) -> Arc<FileLeases> {
        Arc::new(FileLeases {
            mds,
            inodes,
            objects,
            clock,
            counters,
        })
    }
}
