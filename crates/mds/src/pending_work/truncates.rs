//! Pending truncates: what a truncate promised and the OSTs have not all done yet.
//!
//! A pending truncate is listed under the shard's lock at the moment when its batch is staged, and leaves the list when
//! `TruncateDone` is staged, so an operation that finds an inode truncating finds the truncate here. One task at a time runs it;
//! the others wait and then look again.

use gupfs_namespace::PurgeId;
use gupfs_proto::{InodeId, ObjectId, OstId, Seq, SessionId};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
pub struct PendingTruncates {
    list: Mutex<BTreeMap<PurgeId, Arc<PendingTruncate>>>,
}

pub struct PendingTruncate {
    pub id: PurgeId,
    /// The batch that promised it: the OSTs may not remove bytes before this batch is durable, or a power loss in between would
    /// leave a file that was never truncated and yet has lost its end.
    pub seq: Seq,
    /// The session whose request promised it, and which gets the attributes after it in the reply; None for one from before this
    /// start.
    pub session: Option<SessionId>,
    /// Each object, and the length that remains.
    pub objects: Vec<(OstId, ObjectId, u64)>,
    /// Locked by the task that runs the truncate; true when it is done.
    pub done: tokio::sync::Mutex<bool>,
}

impl PendingTruncates {
    pub fn add(
        &self,
        id: PurgeId,
        seq: Seq,
        session: Option<SessionId>,
        objects: Vec<(OstId, ObjectId, u64)>,
    ) -> Arc<PendingTruncate> {
        let truncate = Arc::new(PendingTruncate {
            id,
            seq,
            session,
            objects,
            done: tokio::sync::Mutex::new(false),
        });
        self.list.lock().insert(id, truncate.clone());
        truncate
    }

    pub fn get(&self, id: PurgeId) -> Option<Arc<PendingTruncate>> {
        self.list.lock().get(&id).cloned()
    }

    /// The pending truncate of a file; there is at most one.
    pub fn of(&self, ino: InodeId) -> Option<Arc<PendingTruncate>> {
        let first = PurgeId { ino, number: 0 };
        let last = PurgeId {
            ino,
            number: u32::MAX,
        };
        let list = self.list.lock();
        list.range(first..=last)
            .next()
            .map(|(_, truncate)| truncate.clone())
    }

    pub fn remove(&self, id: PurgeId) {
        self.list.lock().remove(&id);
    }

    pub fn all(&self) -> Vec<Arc<PendingTruncate>> {
        self.list.lock().values().cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.list.lock().len()
    }
}
