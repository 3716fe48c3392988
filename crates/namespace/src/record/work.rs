//! `P id`: objects that are to be removed or cut. It outlives the inode and goes when the object servers have done it.

use super::first_version;
use crate::key::PurgeId;
use gupfs_proto::{Layout, ObjectId, OstId, Presence, VolumeId};
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Purge {
    pub what: PurgeWhat,
    /// The components concerned, with their presence at that moment.
    pub layout: Layout,
    pub volume: VolumeId,
    /// Size of the file before, for accounting.
    pub size: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PurgeWhat {
    Remove,
    /// The file ends at `to` now.
    Cut {
        to: u64,
    },
}

impl Purge {
    /// Every object that may exist, and the length it is to keep (0 when it is removed).
    pub fn objects(&self, id: PurgeId) -> Vec<(OstId, ObjectId, u64)> {
        self.layout
            .objects(id.ino)
            .filter(|(.., presence)| *presence != Presence::Never)
            .map(|(component, stripe, ost, object, _)| {
                let keep = match self.what {
                    PurgeWhat::Remove => 0,
                    PurgeWhat::Cut { to } => {
                        self.layout.components[component].object_size(stripe, to)
                    }
                };
                (ost, object, keep)
            })
            .collect()
    }
}

first_version!(Purge);
