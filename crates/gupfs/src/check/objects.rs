//! The comparison of the objects in layouts with the objects on the OSTs.
//!
//! It does no I/O: the caller adds inodes and purges, then each object of each OST.

use gupfs_namespace::{Inode, InodeBody, Purge, PurgeId};
use gupfs_proto::{InodeId, ObjectId, OstId, Presence};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A problem of one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjectProblem {
    /// No layout contains it, and no purge will remove it.
    WithoutInode {
        ost: OstId,
        object: ObjectId,
        size: u64,
    },
    /// The inode says that the object exists.
    Lost { ost: OstId, object: ObjectId },
    /// The layout has it on another OST.
    WrongOst {
        ost: OstId,
        object: ObjectId,
        right: OstId,
    },
    /// The inode says that the object was never created: its bytes read as zeros.
    Unannounced {
        ost: OstId,
        object: ObjectId,
        size: u64,
    },
    /// Its bytes do not match their checksums.
    Damaged { ost: OstId, object: ObjectId },
}

impl fmt::Display for ObjectProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ObjectProblem::*;
        match self {
            WithoutInode { ost, object, size } => {
                write!(
                    f,
                    "object {object} on ost{ost} ({size} bytes) belongs to no inode"
                )
            }
            Lost { ost, object } => {
                write!(
                    f,
                    "object {object} on ost{ost} is missing: inode {:x} has lost bytes",
                    object.ino.0
                )
            }
            WrongOst { ost, object, right } => {
                write!(
                    f,
                    "object {object} is on ost{ost}; its inode has it on ost{right}"
                )
            }
            Unannounced { ost, object, size } => write!(
                f,
                "object {object} on ost{ost} has {size} bytes, but inode {:x} says that it was never created",
                object.ino.0
            ),
            Damaged { ost, object } => {
                write!(
                    f,
                    "object {object} on ost{ost}: bytes do not match their checksum"
                )
            }
        }
    }
}

impl ObjectProblem {
    /// Only an object of no inode can be removed.
    pub fn is_repairable(&self) -> bool {
        matches!(self, ObjectProblem::WithoutInode { .. })
    }

    pub fn kind(&self) -> &'static str {
        match self {
            ObjectProblem::WithoutInode { .. } => "ObjectWithoutInode",
            ObjectProblem::Lost { .. } => "ObjectLost",
            ObjectProblem::WrongOst { .. } => "ObjectOnWrongOst",
            ObjectProblem::Unannounced { .. } => "ObjectUnannounced",
            ObjectProblem::Damaged { .. } => "ObjectDamaged",
        }
    }
}

/// The objects that the records expect.
#[derive(Debug, Default)]
pub struct Expected {
    layouts: BTreeMap<ObjectId, (OstId, Presence)>,
    /// Objects of purges: they may exist or not.
    purged: BTreeSet<ObjectId>,
    /// Inodes with unreadable layouts: nothing is known of their objects.
    unreadable: BTreeSet<InodeId>,
}

impl Expected {
    pub fn add_inode(&mut self, ino: InodeId, inode: Option<&Inode>) {
        let Some(inode) = inode else {
            self.unreadable.insert(ino);
            return;
        };
        let InodeBody::File(file) = &inode.body else {
            return;
        };
        for (_, _, ost, object, presence) in file.layout.objects(ino) {
            self.layouts.insert(object, (ost, presence));
        }
    }

    pub fn add_purge(&mut self, id: PurgeId, purge: &Purge) {
        // The purge of a truncate keeps the objects that the inode still has.
        let objects = purge.objects(id).into_iter();
        self.purged.extend(objects.map(|(_, object, _)| object));
    }

    /// Compares an object of an OST with the layouts. `lost` returns the objects that were on no OST.
    pub fn check(&mut self, ost: OstId, object: ObjectId, size: u64) -> Option<ObjectProblem> {
        if self.unreadable.contains(&object.ino) {
            return None;
        }
        match self.layouts.get_mut(&object) {
            Some((right, presence)) if *right == ost => {
                let recorded = std::mem::replace(presence, Presence::Maybe);
                (recorded == Presence::Never && !self.purged.contains(&object))
                    .then_some(ObjectProblem::Unannounced { ost, object, size })
            }
            Some((right, _)) => Some(ObjectProblem::WrongOst {
                ost,
                object,
                right: *right,
            }),
            None if self.purged.contains(&object) => None,
            None => Some(ObjectProblem::WithoutInode { ost, object, size }),
        }
    }

    /// The number of objects that must be on OSTs other than `scanned`, for each of these OSTs.
    pub fn elsewhere(&self, scanned: &BTreeSet<OstId>) -> BTreeMap<OstId, u64> {
        let mut counts = BTreeMap::new();
        for (ost, presence) in self.layouts.values() {
            if *presence == Presence::Present && !scanned.contains(ost) {
                *counts.entry(*ost).or_default() += 1;
            }
        }
        counts
    }

    /// The objects that should be on OSTs in `listed`, and are not.
    pub fn lost(&self, listed: &BTreeSet<OstId>) -> Vec<ObjectProblem> {
        self.layouts
            .iter()
            .filter(|(object, (ost, presence))| {
                *presence == Presence::Present
                    && listed.contains(ost)
                    && !self.purged.contains(object)
            })
            .map(|(object, (ost, _))| ObjectProblem::Lost {
                ost: *ost,
                object: *object,
            })
            .collect()
    }
}
