//! The state of one object of a file: its blocks, and whether a power loss of its server may lose unsynced data. Pure.

use gupfs_proto::{ObjectId, OstId, WriteVerifier};

#[derive(Clone, Copy, Default)]
pub struct ObjectState {
    /// None: not known.
    pub blocks: Option<u64>,
    pub unsynced: Option<UnsyncedSince>,
    /// A sync of it is in progress: until it succeeds the object may be lost.
    pub syncing: Option<UnsyncedSince>,
}

impl ObjectState {
    /// The object has an unsynced change that its target answered with this write verifier; None before the answer.
    pub fn mark_unsynced(&mut self, verifier: Option<WriteVerifier>) {
        let answered = UnsyncedSince(verifier);
        self.unsynced = Some(
            self.unsynced
                .map_or(answered, |since| since.earlier(answered)),
        );
    }

    pub fn may_be_lost(self) -> bool {
        self.unsynced.is_some() || self.syncing.is_some()
    }

    /// The oldest unsynced change, including one whose sync is in progress.
    pub fn unsynced_since(self) -> Option<UnsyncedSince> {
        match (self.unsynced, self.syncing) {
            (Some(later), Some(earlier)) => Some(later.earlier(earlier)),
            (one, other) => one.or(other),
        }
    }

    /// The sync has ended, or was dropped.
    pub fn sync_finished(&mut self, succeeded: bool) {
        let before = self.unsynced_since();
        if self.syncing.take().is_some() && !succeeded {
            self.unsynced = before;
        }
    }
}

/// The write verifier (NFS) with which the target answered the oldest unsynced change: under a later verifier the change may be
/// lost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct UnsyncedSince(Option<WriteVerifier>);

impl UnsyncedSince {
    /// The earlier of both.
    pub fn earlier(self, other: UnsyncedSince) -> UnsyncedSince {
        match (self.0, other.0) {
            (Some(one), Some(other)) => UnsyncedSince(Some(one.min(other))),
            (one, other) => UnsyncedSince(one.or(other)),
        }
    }

    /// Whether a sync that the target answered with this verifier does not cover the change.
    pub fn is_voided_by(self, verifier: WriteVerifier) -> bool {
        self.0.is_some_and(|since| since != verifier)
    }
}

/// An object that must be synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnsyncedObject {
    pub ost: OstId,
    pub object: ObjectId,
    pub since: UnsyncedSince,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_write_verifier_counts_until_a_sync_succeeds() {
        let mut object = ObjectState::default();
        object.mark_unsynced(None);
        assert!(!object.unsynced.unwrap().is_voided_by(WriteVerifier(7)));
        object.mark_unsynced(Some(WriteVerifier(1)));
        object.mark_unsynced(Some(WriteVerifier(2)));
        assert!(object.unsynced.unwrap().is_voided_by(WriteVerifier(2)));

        object.syncing = object.unsynced.take();
        object.mark_unsynced(Some(WriteVerifier(2)));
        let mut failed = object;
        failed.sync_finished(false);
        assert!(failed.unsynced.unwrap().is_voided_by(WriteVerifier(2)));
        object.sync_finished(true);
        assert!(!object.unsynced.unwrap().is_voided_by(WriteVerifier(2)));
    }
}
