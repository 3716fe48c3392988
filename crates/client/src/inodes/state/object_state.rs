//! The state of one object of a file: its blocks, and whether a power loss of its server may lose unsynced data. Pure.

use gupfs_proto::{ObjectId, OstId, WriteVerifier};

#[derive(Clone, Copy, Default)]
pub struct ObjectState {
    /// None: not known.
    pub blocks: Option<u64>,
    pub sync: SyncState,
}

/// The oldest changes of an object that a power loss of its server may undo.
#[derive(Clone, Copy, Default)]
pub struct SyncState {
    unsynced: Option<UnsyncedSince>,
    /// A sync of it is in progress: until it succeeds the object may be lost.
    syncing: Option<UnsyncedSince>,
}

impl SyncState {
    /// The object has an unsynced change that its target answered with this write verifier; None before the answer.
    pub fn mark(&mut self, verifier: Option<WriteVerifier>) {
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
    pub fn since(self) -> Option<UnsyncedSince> {
        match (self.unsynced, self.syncing) {
            (Some(later), Some(earlier)) => Some(later.earlier(earlier)),
            (one, other) => one.or(other),
        }
    }

    /// A sync begins, if there is an unsynced change or `may_be_unsynced`.
    pub fn start(&mut self, may_be_unsynced: bool) -> Option<UnsyncedSince> {
        let unsure = may_be_unsynced.then(UnsyncedSince::default);
        let since = self.unsynced.take().or(unsure)?;
        self.syncing = Some(since);
        Some(since)
    }

    /// The sync has ended, or was dropped.
    pub fn finish(&mut self, succeeded: bool) {
        let before = self.since();
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
        let mut object = SyncState::default();
        object.mark(None);
        assert!(!object.unsynced.unwrap().is_voided_by(WriteVerifier(7)));
        object.mark(Some(WriteVerifier(1)));
        object.mark(Some(WriteVerifier(2)));
        assert!(object.unsynced.unwrap().is_voided_by(WriteVerifier(2)));

        object.start(false);
        object.mark(Some(WriteVerifier(2)));
        let mut failed = object;
        failed.finish(false);
        assert!(failed.unsynced.unwrap().is_voided_by(WriteVerifier(2)));
        object.finish(true);
        assert!(!object.unsynced.unwrap().is_voided_by(WriteVerifier(2)));
    }
}
