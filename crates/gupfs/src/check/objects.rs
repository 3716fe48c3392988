//! Objects against inodes: what the layouts say must be there, and what the OSTs have.
//!
//! Pure: it is fed with inodes and purges, then with each OST's objects in ascending order.

use gupfs_namespace::{Inode, InodeBody, Purge, PurgeId};
use gupfs_proto::{InodeId, ObjectId, OstId, Presence};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What is wrong with one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjectProblem {
    /// No inode's layout names it, and no purge is going to remove it.
    WithoutInode {
        ost: OstId,
        object: ObjectId,
        size: u64,
    },
    /// The inode says that it was made.
    Lost { ost: OstId, object: ObjectId },
    /// Its inode has it on another OST.
    WrongOst {
        ost: OstId,
        object: ObjectId,
        right: OstId,
    },
    /// The inode says that it was never made: its bytes read as zeros.
    Unannounced {
        ost: OstId,
        object: ObjectId,
        size: u64,
    },
    /// Its bytes are not those that its checksums were made of.
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
                "object {object} on ost{ost} has {size} bytes that inode {:x} knows nothing of",
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
    /// Only what no name leads to may be removed.
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

/// What the records say about objects.
#[derive(Debug, Default)]
pub struct Expected {
    layouts: BTreeMap<ObjectId, (OstId, Presence)>,
    /// Going to be removed: may be there or not.
    purged: BTreeSet<ObjectId>,
    /// Their layouts could not be read, so nothing is known of their objects.
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
        // A cut leaves objects that their inode still has.
        let objects = purge.objects(id).into_iter();
        self.purged.extend(objects.map(|(_, object, _)| object));
    }

    /// Objects are judged as they are seen; what was not seen on any OST is judged by `lost`.
    pub fn judge(&mut self, ost: OstId, object: ObjectId, size: u64) -> Option<ObjectProblem> {
        if self.unreadable.contains(&object.ino) {
            return None;
        }
        match self.layouts.get_mut(&object) {
            Some((right, presence)) if *right == ost => {
                let said = std::mem::replace(presence, Presence::Maybe);
                (said == Presence::Never && !self.purged.contains(&object))
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

    /// Objects that must be on OSTs which are not `here`.
    pub fn elsewhere(&self, here: &BTreeSet<OstId>) -> BTreeMap<OstId, u64> {
        let mut counts = BTreeMap::new();
        for (ost, presence) in self.layouts.values() {
            if *presence == Presence::Present && !here.contains(ost) {
                *counts.entry(*ost).or_default() += 1;
            }
        }
        counts
    }

    /// What should be on OSTs that were listed, and was not seen there.
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
