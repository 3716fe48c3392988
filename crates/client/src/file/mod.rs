//! # file: data of regular files
//!
//! Owns   where reads and writes go (`FileIo`), write leases and attribute reports (`leases`), calls about objects (`objects`),
//!        opening and releasing (`Opens`), syncing (`FileSync`).
//! Never  looks up a name; checks permissions (the metadata server does, when a file is opened).
//! Enter  at `Opens::open`, `FileIo::read`, `FileIo::write`, `FileSync::fsync`, `Opens::release`.

mod allocate;
mod cached_read;
mod copy;
mod leases;
mod objects;
mod opens;
mod read;
mod read_ahead;
mod read_pages;
mod read_shared;
mod seek;
mod sync;
mod write;
mod write_behind;
mod write_lock;

pub use allocate::AllocateMode;
pub use leases::FileLeases;
pub use objects::SeekTo;
pub use opens::{OpenedFile, Opens};
pub use read::ReadOptions;
pub use sync::FileSync;
pub use write::{WriteDone, WriteOptions};
pub use write_behind::WriteBehind;

use crate::inodes::{ClosedUnsynced, InodeTable};
use crate::limits::READ_AHEAD_PIECES;
use crate::metrics::Counters;
use crate::options::{AtimeMode, SessionOptions};
use crate::osts::OstCalls;
use crate::session::MdsSession;
use gupfs_platform::{Clock, Platform, Tasks};
use objects::ObjectIo;
use parking_lot::Mutex;
use read_ahead::ReadAheadTasks;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The handles to files' data, composed.
pub struct Files {
    pub io: FileIo,
    pub leases: Arc<FileLeases>,
    pub sync: Arc<FileSync>,
    pub write_behind: Arc<WriteBehind>,
}

impl Files {
    pub fn new(
        mds: &Arc<MdsSession>,
        osts: &Arc<OstCalls>,
        inodes: &Arc<InodeTable>,
        closed_unsynced: &Arc<Mutex<ClosedUnsynced>>,
        counters: &Arc<Counters>,
        platform: &Platform,
        options: &SessionOptions,
    ) -> Files {
        let clock = &platform.clock;
        let objects = ObjectIo::new(
            osts.clone(),
            mds.clone(),
            closed_unsynced.clone(),
            platform,
            counters.clone(),
        );
        let leases = FileLeases::new(
            mds.clone(),
            inodes.clone(),
            objects.clone(),
            platform,
            counters.clone(),
        );
        let sync = FileSync::new(
            mds.clone(),
            inodes.clone(),
            leases.clone(),
            objects.clone(),
            platform.tasks.clone(),
            counters.clone(),
        );
        let read_ahead = ReadAheadTasks {
            mds: mds.clone(),
            inodes: inodes.clone(),
            objects: objects.clone(),
            clock: clock.clone(),
            tasks: platform.tasks.clone(),
            counters: counters.clone(),
            pieces: Arc::new(Semaphore::new(READ_AHEAD_PIECES)),
        };
        let write_behind = Arc::new(WriteBehind {
            is_on: options.write_behind,
            mds: mds.clone(),
            inodes: inodes.clone(),
            leases: leases.clone(),
            objects: objects.clone(),
            clock: clock.clone(),
            tasks: platform.tasks.clone(),
            osts: osts.clone(),
            total: Arc::default(),
        });
        let io = FileIo {
            mds: mds.clone(),
            read_ahead: Arc::new(read_ahead),
            leases: leases.clone(),
            objects,
            sync: sync.clone(),
            clock: clock.clone(),
            tasks: platform.tasks.clone(),
            atime: options.atime,
            write_behind: write_behind.clone(),
            counters: counters.clone(),
        };
        Files {
            io,
            leases,
            sync,
            write_behind,
        }
    }
}

/// Reads and writes of open files.
pub struct FileIo {
    mds: Arc<MdsSession>,
    leases: Arc<FileLeases>,
    objects: Arc<ObjectIo>,
    sync: Arc<FileSync>,
    clock: Clock,
    tasks: Tasks,
    atime: AtimeMode,
    read_ahead: Arc<ReadAheadTasks>,
    write_behind: Arc<WriteBehind>,
    counters: Arc<Counters>,
}
