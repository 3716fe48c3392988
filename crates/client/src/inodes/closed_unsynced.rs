//! Unsynced objects of closed files, for the next `sync_all`. Pure.

use super::state::{UnsyncedObject, UnsyncedSince};
use gupfs_proto::{FsError, Generation, InodeId, ObjectId, OstId};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct ClosedUnsynced {
    objects: BTreeMap<ObjectId, (OstId, UnsyncedSince)>,
    /// A loss that no caller has got as an error yet.
    lost: Option<FsError>,
}

impl ClosedUnsynced {
    pub fn add(&mut self, objects: impl IntoIterator<Item = UnsyncedObject>) {
        for UnsyncedObject { ost, object, since } in objects {
            let left = self.objects.entry(object).or_insert((ost, since));
            left.1 = left.1.earlier(since);
        }
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Drops the objects of files that are removed.
    pub fn forget_files(&mut self, inodes: &[InodeId]) {
        for ino in inodes {
            let object = |generation, stripe| ObjectId {
                ino: *ino,
                generation: Generation(generation),
                stripe,
            };
            let of_inode = self
                .objects
                .range(object(0, 0)..=object(u32::MAX, u32::MAX));
            let of_inode: Vec<ObjectId> = of_inode.map(|(object, _)| *object).collect();
            for object in of_inode {
                self.objects.remove(&object);
            }
        }
    }

    pub fn take(&mut self) -> Vec<UnsyncedObject> {
        let objects = std::mem::take(&mut self.objects);
        let unsynced = |(object, (ost, since))| UnsyncedObject { ost, object, since };
        objects.into_iter().map(unsynced).collect()
    }

    /// Removes and returns those whose file is open again and being synced: that sync covers the writes from before the close,
    /// too.
    pub fn take_over(&mut self, unsynced: &mut [UnsyncedObject]) -> Vec<UnsyncedObject> {
        let mut taken = Vec::new();
        for one in unsynced {
            let Some((ost, since)) = self.objects.remove(&one.object) else {
                continue;
            };
            let object = one.object;
            taken.push(UnsyncedObject { ost, object, since });
            one.since = one.since.earlier(since);
        }
        taken
    }

    /// Keeps an error for the next `sync_all`.
    pub fn set_loss(&mut self, error: FsError) {
        self.lost = Some(error);
    }

    /// Returns the kept error, once.
    pub fn take_loss(&mut self) -> Result<(), FsError> {
        self.lost.take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgetting_a_file_forgets_its_objects() {
        let object = |ino, stripe| ObjectId {
            ino: InodeId(ino),
            generation: Generation(3),
            stripe,
        };
        let unsynced = |ost, object| UnsyncedObject {
            ost: OstId(ost),
            object,
            since: UnsyncedSince::default(),
        };
        let mut left = ClosedUnsynced::default();
        left.add([
            unsynced(0, object(5, 0)),
            unsynced(1, object(5, 1)),
            unsynced(0, object(6, 0)),
        ]);
        left.forget_files(&[InodeId(5), InodeId(7)]);
        assert_eq!(left.take(), [unsynced(0, object(6, 0))]);
        assert_eq!(left.len(), 0);
    }
}
