//! Which objects of a file must be synced.

use super::object_state::{UnsyncedObject, UnsyncedSince};
use super::objects::FileObjects;
use gupfs_proto::{InodeId, Presence};

impl FileObjects {
    /// Takes the objects to sync. The caller calls `sync_finished` with the result; no other task takes any before that.
    pub fn take_unsynced(&mut self, ino: InodeId) -> Vec<UnsyncedObject> {
        let all = std::mem::take(&mut self.may_have_unknown_unsynced);
        let mut taken = Vec::new();
        for ((_, _, ost, object, presence), known) in self.layout.objects(ino).zip(&mut self.states)
        {
            let may_be_unsynced = all && !matches!(presence, Presence::Never | Presence::Stale);
            if let Some(since) = known.sync.start(may_be_unsynced) {
                taken.push(UnsyncedObject { ost, object, since });
            }
        }
        // Those whose sync failed, and those that have moved meanwhile.
        self.left_behind
            .syncing
            .append(&mut self.left_behind.unsynced);
        taken.extend(&self.left_behind.syncing);
        taken
    }

    /// The taken objects were synced, or stay unsynced.
    pub fn sync_finished(&mut self, succeeded: bool) {
        for object in &mut self.states {
            object.sync.finish(succeeded);
        }
        let mut left = std::mem::take(&mut self.left_behind.syncing);
        if !succeeded {
            self.left_behind.unsynced.append(&mut left);
        }
    }

    /// Unsynced data of these objects may be lost, and so may the objects themselves.
    pub fn lost(&mut self, ino: InodeId, lost: &[UnsyncedObject]) {
        let all: Vec<_> = self.layout.objects(ino).collect();
        for (index, (component, stripe, _, object, presence)) in all.into_iter().enumerate() {
            if presence != Presence::Present || !lost.iter().any(|lost| lost.object == object) {
                continue;
            }
            self.states[index].blocks = None;
            let presence = &mut self.layout.components[component].presence;
            presence.set(stripe, Presence::Maybe);
        }
    }

    /// Objects known to be unsynced.
    pub fn unsynced(&self, ino: InodeId) -> Vec<UnsyncedObject> {
        let all = self.layout.objects(ino).zip(&self.states);
        all.filter_map(|((_, _, ost, object, _), known)| {
            let since: UnsyncedSince = known.sync.since()?;
            Some(UnsyncedObject { ost, object, since })
        })
        .chain(self.left_behind.unsynced.iter().copied())
        .chain(self.left_behind.syncing.iter().copied())
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inodes::state::fixtures::layout;

    const INO: InodeId = InodeId(5);

    #[test]
    fn after_a_load_every_object_that_may_exist_is_synced_once() {
        let mut objects = FileObjects::default();
        objects.load(false);
        objects.adopt_layout(INO, layout(Presence::Maybe), false, true);
        assert_eq!(objects.unsynced(INO).len(), 0);
        assert_eq!(objects.take_unsynced(INO).len(), 2);
        objects.sync_finished(true);
        assert_eq!(objects.take_unsynced(INO).len(), 0);
    }

    #[test]
    fn a_failed_sync_leaves_its_objects_unsynced() {
        let mut objects = FileObjects::default();
        objects.adopt_layout(INO, layout(Presence::Maybe), true, true);
        objects.mark_dirty(0, 1);
        assert_eq!(objects.take_unsynced(INO).len(), 1);
        objects.sync_finished(false);
        assert_eq!(objects.take_unsynced(INO).len(), 1);
    }

    #[test]
    fn an_unsynced_object_that_moves_is_synced_on_its_former_ost_too() {
        let mut objects = FileObjects::default();
        objects.adopt_layout(INO, layout(Presence::Maybe), true, true);
        objects.mark_dirty(0, 1);
        let before = objects.unsynced(INO);
        assert_eq!(before.len(), 1);
        let mut moved = layout(Presence::Present);
        moved.components[0].targets[1] = gupfs_proto::OstId(77);
        objects.adopt_layout(INO, moved, false, false);
        assert_eq!(objects.unsynced(INO), before);
        for succeeded in [false, true] {
            assert!(objects.take_unsynced(INO).contains(&before[0]));
            objects.sync_finished(succeeded);
        }
        assert_eq!(objects.unsynced(INO), []);
        assert!(!objects.take_unsynced(INO).contains(&before[0]));
    }
}
