//! What was found damaged: listed for people, counted beyond the list's bound.

use super::limits::DAMAGE_LISTED;
use gupfs_proto::ObjectId;
use gupfs_proto::refusal::ObjectDamage;
use parking_lot::Mutex;
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct DamageList(Mutex<Found>);

#[derive(Default)]
struct Found {
    objects: BTreeMap<ObjectId, ObjectDamage>,
    times: u64,
}

impl DamageList {
    /// True if this object was not known to be damaged.
    pub fn add(&self, id: ObjectId, what: ObjectDamage) -> bool {
        let mut found = self.0.lock();
        found.times += 1;
        if found.objects.len() >= DAMAGE_LISTED {
            return false;
        }
        found.objects.insert(id, what).is_none()
    }

    /// It is gone, or was found whole again.
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

    /// How often damage was met.
    pub fn times(&self) -> u64 {
        self.0.lock().times
    }
}
