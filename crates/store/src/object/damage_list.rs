//! Damaged objects: listed for the administrator, and only counted above the list's bound.

use super::limits::DAMAGE_LISTED;
use gupfs_proto::ObjectId;
use gupfs_proto::error::ObjectDamage;
use parking_lot::Mutex;
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct DamageList(Mutex<DamageEntries>);

#[derive(Default)]
struct DamageEntries {
    objects: BTreeMap<ObjectId, ObjectDamage>,
    times: u64,
}

impl DamageList {
    /// Adds a damaged object. Returns true if it was not known to be damaged.
    pub fn add(&self, id: ObjectId, what: ObjectDamage) -> bool {
        let mut found = self.0.lock();
        found.times += 1;
        if found.objects.len() >= DAMAGE_LISTED {
            return false;
        }
        found.objects.insert(id, what).is_none()
    }

    /// Removes an object that is removed, or was found intact.
    pub fn clear(&self, id: ObjectId) {
        self.0.lock().objects.remove(&id);
    }

    pub fn list(&self) -> Vec<(ObjectId, ObjectDamage)> {
        let found = self.0.lock();
        found
            .objects
            .iter()
            .map(|(id, what)| (*id, *what))
            .collect()
    }

    /// How often an operation met damage.
    pub fn times(&self) -> u64 {
        self.0.lock().times
    }
}
