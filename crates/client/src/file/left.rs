//! Objects of files closed without fsync, for the next `sync_all`: pure.

use gupfs_proto::{Generation, InodeId, ObjectId, OstId};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Left {
    objects: BTreeMap<ObjectId, OstId>,
}

impl Left {
    pub fn add(&mut self, objects: impl IntoIterator<Item = (OstId, ObjectId)>) {
        let added = objects.into_iter().map(|(ost, object)| (object, ost));
        self.objects.extend(added);
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

    pub fn take(&mut self) -> Vec<(OstId, ObjectId)> {
        let objects = std::mem::take(&mut self.objects);
        objects
            .into_iter()
            .map(|(object, ost)| (ost, object))
            .collect()
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
        let mut left = Left::default();
        left.add([
            (OstId(0), object(5, 0)),
            (OstId(1), object(5, 1)),
            (OstId(0), object(6, 0)),
        ]);
        left.forget(&[InodeId(5), InodeId(7)]);
        assert_eq!(left.take(), [(OstId(0), object(6, 0))]);
        assert_eq!(left.len(), 0);
    }
}
