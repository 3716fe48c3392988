//! Damaged objects: listed for the administrator, and only counted above the list's bound.

use super::error::fs_error;
use super::limits::DAMAGE_LISTED;
use gupfs_platform::DiskError;
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::{FsError, ObjectId, OstId};
use parking_lot::Mutex;
use std::collections::BTreeMap;

pub(super) struct DamageList {
    ost: OstId,
    entries: Mutex<DamageEntries>,
}

#[derive(Default)]
struct DamageEntries {
    objects: BTreeMap<ObjectId, ObjectDamage>,
    times: u64,
}

impl DamageList {
    pub fn new(ost: OstId) -> DamageList {
        DamageList {
            ost,
            entries: Mutex::default(),
        }
    }

    /// Counts and lists the damage, and returns the error for it.
    pub fn report(&self, object: ObjectId, what: ObjectDamage) -> FsError {
        if self.add(object, what) {
            tracing::error!(ost = self.ost.0, %object, %what, "damaged object");
        }
        FsError::ObjectDamaged {
            ost: self.ost,
            object,
            damage: what,
        }
    }

    /// The error that a client gets when the disk fails an operation on this object; reports bytes that the disk cannot
    /// read as damage.
    pub fn fs_error(&self, object: ObjectId, error: &DiskError) -> FsError {
        match fs_error(self.ost, object, error) {
            FsError::ObjectDamaged { damage: what, .. } => self.report(object, what),
            other => other,
        }
    }

    /// Adds a damaged object. Returns true if it was not known to be damaged.
    fn add(&self, id: ObjectId, what: ObjectDamage) -> bool {
        let mut found = self.entries.lock();
        found.times += 1;
        if found.objects.len() >= DAMAGE_LISTED {
            return false;
        }
        found.objects.insert(id, what).is_none()
    }

    /// Removes an object that is removed, or was found intact.
    pub fn clear(&self, id: ObjectId) {
        self.entries.lock().objects.remove(&id);
    }

    pub fn list(&self) -> Vec<(ObjectId, ObjectDamage)> {
        let found = self.entries.lock();
        found
            .objects
            .iter()
            .map(|(id, what)| (*id, *what))
            .collect()
    }

    /// How often an operation met damage.
    pub fn times(&self) -> u64 {
        self.entries.lock().times
    }
}
