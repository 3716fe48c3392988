//! Objects of files closed without fsync, for the next `sync_all`: pure.

use super::object::{Since, Unsynced};
use gupfs_proto::{Generation, InodeId, ObjectId, OstId, Refusal};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Left {
    objects: BTreeMap<ObjectId, (OstId, Since)>,
    /// What was lost and nobody was told.
    lost: Option<Refusal>,
}

impl Left {
    pub fn add(&mut self, objects: impl IntoIterator<Item = Unsynced>) {
        for Unsynced { ost, object, since } in objects {
            let left = self.objects.entry(object).or_insert((ost, since));
            left.1 = left.1.or(since);
        }
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Its objects are gone.
    pub fn forget(&mut self, inodes: &[InodeId]) {
        for ino in inodes {
            let object = |generation, stripe| ObjectId {
                ino: *ino,
                generation: Generation(generation),
                stripe,
            };
            let theirs = self
                .objects
                .range(object(0, 0)..=object(u32::MAX, u32::MAX));
            let theirs: Vec<ObjectId> = theirs.map(|(object, _)| *object).collect();
            for object in theirs {
                self.objects.remove(&object);
            }
        }
    }

    pub fn take(&mut self) -> Vec<Unsynced> {
        let objects = std::mem::take(&mut self.objects);
        let unsynced = |(object, (ost, since))| Unsynced { ost, object, since };
        objects.into_iter().map(unsynced).collect()
    }

    /// Those of them whose file is open again and synced there: they are synced with what was written before it was closed.
    pub fn take_over(&mut self, unsynced: &mut [Unsynced]) -> Vec<Unsynced> {
        let mut taken = Vec::new();
        for one in unsynced {
            let Some((ost, since)) = self.objects.remove(&one.object) else {
                continue;
            };
            let object = one.object;
            taken.push(Unsynced { ost, object, since });
            one.since = one.since.or(since);
        }
        taken
    }

    /// Somebody is to be told.
    pub fn lose(&mut self, refusal: Refusal) {
        self.lost = Some(refusal);
    }

    /// What somebody is to be told, once.
    pub fn tell(&mut self) -> Result<(), Refusal> {
        self.lost.take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_gone_takes_its_objects_along() {
        let object = |ino, stripe| ObjectId {
            ino: InodeId(ino),
            generation: Generation(3),
            stripe,
        };
        let unsynced = |ost, object| Unsynced {
            ost: OstId(ost),
            object,
            since: Since::default(),
        };
        let mut left = Left::default();
        left.add([
            unsynced(0, object(5, 0)),
            unsynced(1, object(5, 1)),
            unsynced(0, object(6, 0)),
        ]);
        left.forget(&[InodeId(5), InodeId(7)]);
        assert_eq!(left.take(), [unsynced(0, object(6, 0))]);
        assert_eq!(left.len(), 0);
    }
}
