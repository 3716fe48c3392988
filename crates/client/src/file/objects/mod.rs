//! # objects: the objects of one inode
//!
//! Owns   the calls to OSTs about an inode's objects, and what their replies change in the inode's state.
//! Never  calls the metadata server, except to record that members of mirrored stripes are stale; locks a range of the file: its callers
//!        do.
//! Enter  at `ObjectIo::write`, `ObjectIo::read`, `ObjectIo::sync`.

mod allocate;
mod flush;
mod members;
mod read;
mod relayed;
mod seek;
mod silent_targets;
mod stat;
mod sync;
mod truncate;
mod verify;
mod write;

pub use read::FileBytes;
pub use seek::SeekTo;
pub use write::WriteProgress;

use crate::inodes::ClosedUnsynced;
use crate::metrics::Counters;
use crate::osts::OstCalls;
use crate::session::MdsSession;
use gupfs_platform::{Clock, Platform, Tasks};
use gupfs_proto::data::{ObjectExistence, ObjectStat};
use gupfs_proto::{Presence, WriteVerifier};
use parking_lot::Mutex;
use silent_targets::SilentTargets;
use std::sync::Arc;

/// The state of an object after a change, and the write verifier of its target.
type ChangedObject = (ObjectStat, WriteVerifier);

pub struct ObjectIo {
    osts: Arc<OstCalls>,
    mds: Arc<MdsSession>,
    /// Objects of closed files are synced here too.
    closed_unsynced: Arc<Mutex<ClosedUnsynced>>,
    /// Held while unsynced objects of closed files are synced: one such sync at a time.
    syncing_closed: tokio::sync::Mutex<()>,
    silent_targets: Arc<SilentTargets>,
    clock: Clock,
    tasks: Tasks,
    counters: Arc<Counters>,
}

impl ObjectIo {
    pub fn new(
        osts: Arc<OstCalls>,
        mds: Arc<MdsSession>,
        closed_unsynced: Arc<Mutex<ClosedUnsynced>>,
        platform: &Platform,
        counters: Arc<Counters>,
    ) -> Arc<ObjectIo> {
        let clock = platform.clock.clone();
        let tasks = platform.tasks.clone();
        Arc::new(ObjectIo {
            silent_targets: SilentTargets::new(osts.clone(), clock.clone(), tasks.clone()),
            osts,
            mds,
            closed_unsynced,
            syncing_closed: tokio::sync::Mutex::default(),
            clock,
            tasks,
            counters,
        })
    }
}

/// The expectation to send to the target for an object of this presence.
fn required_existence(presence: Presence) -> ObjectExistence {
    match presence {
        Presence::Present => ObjectExistence::MustExist,
        Presence::Never | Presence::Maybe | Presence::Stale => ObjectExistence::MayExist,
    }
}
