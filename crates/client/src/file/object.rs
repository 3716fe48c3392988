//! What is known of one object of a file: its space, and what a power cut of its server could take of it. Pure.

use gupfs_proto::{ObjectId, OstId, OstLife};

#[derive(Clone, Copy, Default)]
pub struct Object {
    /// None: not known.
    pub blocks: Option<u64>,
    pub unsynced: Option<Since>,
    /// A sync of it is under way: until it ends well, nobody may rely on it.
    pub syncing: Option<Since>,
}

impl Object {
    /// Something of it may not be synced, which was answered in this life of its target; None before it was answered.
    pub fn changed(&mut self, life: Option<OstLife>) {
        let answered = Since(life);
        self.unsynced = Some(self.unsynced.map_or(answered, |since| since.or(answered)));
    }

    pub fn may_vanish(self) -> bool {
        self.unsynced.is_some() || self.syncing.is_some()
    }

    /// Since when it is to be synced, also if somebody is at it.
    pub fn since(self) -> Option<Since> {
        match (self.unsynced, self.syncing) {
            (Some(later), Some(earlier)) => Some(later.or(earlier)),
            (one, other) => one.or(other),
        }
    }

    /// The sync that was under way ended, or somebody gave it up.
    pub fn synced(&mut self, well: bool) {
        let before = self.since();
        if self.syncing.take().is_some() && !well {
            self.unsynced = before;
        }
    }
}

/// In which life of its target the oldest change was answered that is not synced: in a later one it may be lost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Since(Option<OstLife>);

impl Since {
    /// The earlier of both.
    pub fn or(self, other: Since) -> Since {
        match (self.0, other.0) {
            (Some(one), Some(other)) => Since(Some(one.min(other))),
            (one, other) => Since(one.or(other)),
        }
    }

    /// Whether a sync that was answered in that life says nothing of it.
    pub fn is_before(self, life: OstLife) -> bool {
        self.0.is_some_and(|since| since != life)
    }
}

/// An object that is to be synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsynced {
    pub ost: OstId,
    pub object: ObjectId,
    pub since: Since,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_life_counts_until_a_sync_ends_well() {
        let mut object = Object::default();
        object.changed(None);
        assert!(!object.unsynced.unwrap().is_before(OstLife(7)));
        object.changed(Some(OstLife(1)));
        object.changed(Some(OstLife(2)));
        assert!(object.unsynced.unwrap().is_before(OstLife(2)));

        object.syncing = object.unsynced.take();
        object.changed(Some(OstLife(2)));
        let mut failed = object;
        failed.synced(false);
        assert!(failed.unsynced.unwrap().is_before(OstLife(2)));
        object.synced(true);
        assert!(!object.unsynced.unwrap().is_before(OstLife(2)));
    }
}
