//! Unsynced objects of closed files, for the next `sync_all`. Pure.

use super::state::{UnsyncedObject, UnsyncedSince};
use gupfs_proto::{FsError, Generation, InodeId, ObjectId, OstId};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct ClosedUnsynced {
    /// An object that has moved may be unsynced on both OSTs.
    objects: BTreeMap<(ObjectId, OstId), UnsyncedSince>,
    /// A loss that no caller has got as an error yet.
    lost: Option<FsError>,
}

impl ClosedUnsynced {
    pub fn add(&mut self, objects: impl IntoIterator<Item = UnsyncedObject>) {
        for UnsyncedObject { ost, object, since } in objects {
            let left = self.objects.entry((object, ost)).or_insert(since);
            *left = left.earlier(since);
        }
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Drops the objects of files that are removed.
    pub fn forget_files(&mut self, inodes: &[InodeId]) {
        for ino in inodes {
            let key = |generation, stripe, ost| {
                let object = ObjectId {
                    ino: *ino,
                    generation: Generation(generation),
                    stripe,
                };
                (object, OstId(ost))
            };
            let of_inode = self
                .objects
                .range(key(0, 0, 0)..=key(u32::MAX, u32::MAX, u16::MAX));
            let of_inode: Vec<(ObjectId, OstId)> = of_inode.map(|(key, _)| *key).collect();
            for object in of_inode {
                self.objects.remove(&object);
            }
        }
    }

    pub fn take(&mut self) -> Vec<UnsyncedObject> {
        let objects = std::mem::take(&mut self.objects);
        let unsynced = |((object, ost), since)| UnsyncedObject { ost, object, since };
        objects.into_iter().map(unsynced).collect()
    }

    /// Removes and returns those whose file is open again and being synced: that sync covers the writes from before the close,
    /// too, also those to objects that have moved to another OST since.
    pub fn take_over(&mut self, unsynced: &mut Vec<UnsyncedObject>) -> Vec<UnsyncedObject> {
        let mut taken = Vec::new();
        for at in 0..unsynced.len() {
            let object = unsynced[at].object;
            let of_object = (object, OstId(0))..=(object, OstId(u16::MAX));
            let osts: Vec<OstId> = (self.objects.range(of_object))
                .map(|((_, ost), _)| *ost)
                .collect();
            for ost in osts {
                let Some(since) = self.objects.remove(&(object, ost)) else {
                    continue;
                };
                let closed = UnsyncedObject { ost, object, since };
                taken.push(closed);
                match unsynced
                    .iter_mut()
                    .find(|it| (it.object, it.ost) == (object, ost))
                {
                    Some(open) => open.since = open.since.earlier(since),
                    None => unsynced.push(closed),
                }
            }
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

    #[test]
    fn a_sync_takes_over_what_is_unsynced_on_the_former_ost_of_an_object() {
        let object = ObjectId {
            ino: InodeId(5),
            generation: Generation(3),
            stripe: 0,
        };
        let on = |ost| UnsyncedObject {
            ost: OstId(ost),
            object,
            since: UnsyncedSince::default(),
        };
        let mut left = ClosedUnsynced::default();
        left.add([on(1), on(2)]);
        let mut open = vec![on(2)];
        assert_eq!(left.take_over(&mut open), [on(1), on(2)]);
        assert_eq!(open, [on(2), on(1)]);
        assert_eq!(left.len(), 0);
    }
}
