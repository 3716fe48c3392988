//! Cuts under way: what a truncate promised to the OSTs, and who carries it out.
//!
//! A cut is listed under the shard's lock in the moment its batch is staged, and leaves the list when `CutDone` is staged,
//! so whoever finds an inode cutting finds the cut here. One at a time carries it out, the others wait and then look.

use gupfs_namespace::PurgeId;
use gupfs_proto::{InodeId, ObjectId, OstId, Seq};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
pub struct Cuts {
    list: Mutex<BTreeMap<PurgeId, Arc<Cut>>>,
}

pub struct Cut {
    pub id: PurgeId,
    /// The batch that promised it: what it cuts off must not go before that is durable, or a power cut between would
    /// leave a file that was never truncated and yet has lost its end.
    pub seq: Seq,
    /// Each object, and the length it keeps.
    pub objects: Vec<(OstId, ObjectId, u64)>,
    /// Held by who carries it out; true when it is done.
    pub done: tokio::sync::Mutex<bool>,
}

impl Cuts {
    pub fn add(&self, id: PurgeId, seq: Seq, objects: Vec<(OstId, ObjectId, u64)>) -> Arc<Cut> {
        let cut = Arc::new(Cut {
            id,
            seq,
            objects,
            done: tokio::sync::Mutex::new(false),
        });
        self.list.lock().insert(id, cut.clone());
        cut
    }

    pub fn get(&self, id: PurgeId) -> Option<Arc<Cut>> {
        self.list.lock().get(&id).cloned()
    }

    /// The cut of a file, if one is under way; there is at most one.
    pub fn of(&self, ino: InodeId) -> Option<Arc<Cut>> {
        let first = PurgeId { ino, number: 0 };
        let last = PurgeId {
            ino,
            number: u32::MAX,
        };
        let list = self.list.lock();
        list.range(first..=last).next().map(|(_, cut)| cut.clone())
    }

    pub fn remove(&self, id: PurgeId) {
        self.list.lock().remove(&id);
    }

    pub fn all(&self) -> Vec<Arc<Cut>> {
        self.list.lock().values().cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.list.lock().len()
    }
}
