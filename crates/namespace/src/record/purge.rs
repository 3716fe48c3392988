//! `P id`: objects to remove or truncate. It outlives the inode; the server removes it when the OSTs have done the work.

use super::impl_record_v1;
use crate::key::PurgeId;
use gupfs_proto::{Layout, ObjectId, OstId, Presence, VolumeId};
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Purge {
    pub action: PurgeAction,
    /// The components concerned, with the presence of their objects at that time.
    pub layout: Layout,
    pub volume: VolumeId,
    /// The file's size before, for accounting.
    pub size: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PurgeAction {
    Remove,
    /// The file ends at `to`.
    Truncate {
        to: u64,
    },
}

impl Purge {
    /// Every object that may exist, and the length to which it is truncated (0 if it is removed).
    pub fn objects(&self, id: PurgeId) -> Vec<(OstId, ObjectId, u64)> {
        self.layout
            .objects(id.ino)
            .filter(|(.., presence)| match presence {
                Presence::Never => false,
                Presence::Maybe | Presence::Present => true,
                // A resync gives it the right length.
                Presence::Stale => self.action == PurgeAction::Remove,
            })
            .map(|(component, stripe, ost, object, _)| {
                let keep = match self.action {
                    PurgeAction::Remove => 0,
                    PurgeAction::Truncate { to } => {
                        self.layout.components[component].object_size(stripe, to)
                    }
                };
                (ost, object, keep)
            })
            .collect()
    }
}

impl_record_v1!(Purge);
