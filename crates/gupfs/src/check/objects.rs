//! The comparison of the objects in layouts with the objects on the OSTs.
//!
//! It does no I/O: the caller adds inodes and purges, then each object of each OST.

use gupfs_namespace::{Inode, InodeBody, KnownTarget, Purge, PurgeId};
use gupfs_proto::{InodeId, ObjectId, OstId, Presence};
use serde::Serialize;
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
    Lost {
        ost: OstId,
        object: ObjectId,
        partner: Option<Partner>,
    },
    /// The layout has it on another OST. `superseded`: the object is there, too, and this one was left by a drain that was cancelled.
    WrongOst {
        ost: OstId,
        object: ObjectId,
        right: OstId,
        superseded: bool,
    },
    /// The inode says that the object was never created: its bytes read as zeros.
    Unannounced {
        ost: OstId,
        object: ObjectId,
        size: u64,
    },
    /// Its bytes do not match their checksums.
    Damaged {
        ost: OstId,
        object: ObjectId,
        partner: Option<Partner>,
    },
}

/// Another member of a mirrored stripe has the bytes of the object, which has this place in the layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partner {
    pub component: u32,
    pub index: u32,
    /// The other member.
    pub ost: OstId,
    pub object: ObjectId,
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
            Lost {
                ost,
                object,
                partner: None,
            } => {
                write!(
                    f,
                    "object {object} on ost{ost} is missing: inode {:x} has lost bytes",
                    object.ino.0
                )
            }
            Lost {
                ost,
                object,
                partner: Some(partner),
            } => {
                write!(
                    f,
                    "object {object} on ost{ost} is missing; ost{} has its bytes",
                    partner.ost
                )
            }
            WrongOst {
                ost,
                object,
                right,
                superseded,
            } => {
                let too = if *superseded {
                    ", which has it, too"
                } else {
                    ""
                };
                write!(
                    f,
                    "object {object} is on ost{ost}; its inode has it on ost{right}{too}"
                )
            }
            Unannounced { ost, object, size } => write!(
                f,
                "object {object} on ost{ost} has {size} bytes, but inode {:x} says that it was never created",
                object.ino.0
            ),
            Damaged {
                ost,
                object,
                partner,
            } => {
                write!(
                    f,
                    "object {object} on ost{ost}: bytes do not match their checksum"
                )?;
                match partner {
                    Some(partner) => write!(f, "; ost{} has its bytes, too", partner.ost),
                    None => Ok(()),
                }
            }
        }
    }
}

impl ObjectProblem {
    /// Of damaged and missing objects those count as copies of others that are in order.
    pub fn forget_bad_partners(problems: &mut [&mut ObjectProblem]) {
        let is_bad = |problem: &ObjectProblem| match problem {
            ObjectProblem::Lost { object, .. } | ObjectProblem::Damaged { object, .. } => {
                Some(*object)
            }
            _ => None,
        };
        let bad: BTreeSet<ObjectId> = problems.iter().filter_map(|it| is_bad(it)).collect();
        for problem in problems {
            if let ObjectProblem::Lost { partner, .. } | ObjectProblem::Damaged { partner, .. } =
                &mut **problem
            {
                *partner = partner.filter(|partner| !bad.contains(&partner.object));
            }
        }
    }

    /// An object of no inode is removed, and one that a drain has left is quarantined. An object that is another one's copy is marked as stale, and the server makes it anew.
    pub fn is_repairable(&self) -> bool {
        use ObjectProblem::*;
        match self {
            WithoutInode { .. } => true,
            Lost { partner, .. } | Damaged { partner, .. } => partner.is_some(),
            WrongOst { superseded, .. } => *superseded,
            Unannounced { .. } => false,
        }
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

/// A target that was declared lost, or removed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FormerTarget {
    pub is_removed: bool,
    pub since: String,
    /// Objects that layouts have there. Their bytes are lost, but for those of mirrored files.
    pub objects: u64,
}

impl FormerTarget {
    fn new(target: &KnownTarget, objects: u64) -> FormerTarget {
        FormerTarget {
            is_removed: target.is_removed,
            since: target.lost_since.unwrap_or_default().format_minute(),
            objects,
        }
    }
}

/// The objects that the records expect.
#[derive(Debug, Default)]
pub struct Expected {
    layouts: BTreeMap<ObjectId, (OstId, Presence)>,
    /// Of the full members of mirrored stripes that have another one.
    partners: BTreeMap<ObjectId, Partner>,
    /// Objects of purges: they may exist or not.
    purged: BTreeSet<ObjectId>,
    /// Inodes with unreadable layouts: nothing is known of their objects.
    unreadable: BTreeSet<InodeId>,
    /// Targets whose objects move to others.
    draining: BTreeSet<OstId>,
    /// Targets that are not part of the cluster any more.
    former: BTreeMap<OstId, KnownTarget>,
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
        for (number, index, ost, object, presence) in file.layout.objects(ino) {
            self.layouts.insert(object, (ost, presence));
            let component = &file.layout.components[number];
            let mut full = component.full_members(component.stripe_of(index));
            if presence != Presence::Stale
                && let Some(other) = full.find(|other| *other != index)
            {
                let partner = Partner {
                    component: number as u32,
                    index: index as u32,
                    ost: component.targets[other],
                    object: component.object(ino, other),
                };
                self.partners.insert(object, partner);
            }
        }
    }

    pub fn add_target(&mut self, ost: OstId, target: KnownTarget) {
        if target.lost_since.is_some() {
            self.former.insert(ost, target);
        } else if target.draining_since.is_some() {
            self.draining.insert(ost);
        }
    }

    pub fn is_former(&self, ost: OstId) -> bool {
        self.former.contains_key(&ost)
    }

    /// The targets that are not part of the cluster any more, each with the number of objects that layouts have there.
    pub fn former_targets(&self) -> BTreeMap<OstId, FormerTarget> {
        let missing = self.elsewhere(&BTreeSet::new());
        let former = self.former.iter().map(|(ost, target)| {
            let objects = missing.get(ost).copied().unwrap_or(0);
            (*ost, FormerTarget::new(target, objects))
        });
        former.collect()
    }

    /// The bytes of an object do not match their checksums.
    pub fn damaged(&self, ost: OstId, object: ObjectId) -> ObjectProblem {
        let partner = self.partners.get(&object).copied();
        ObjectProblem::Damaged {
            ost,
            object,
            partner,
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
            // A drain keeps what it has moved: a read may still be under way there.
            Some(_) if self.draining.contains(&ost) => None,
            Some((right, _)) => Some(ObjectProblem::WrongOst {
                ost,
                object,
                right: *right,
                superseded: false,
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
                partner: self.partners.get(object).copied(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::Generation;

    fn object(stripe: u32) -> ObjectId {
        ObjectId {
            ino: InodeId(9),
            generation: Generation(1),
            stripe,
        }
    }

    fn damaged(own: u32, other: u32) -> ObjectProblem {
        let partner = Partner {
            component: 0,
            index: own,
            ost: OstId(other as u16),
            object: object(other),
        };
        ObjectProblem::Damaged {
            ost: OstId(own as u16),
            object: object(own),
            partner: Some(partner),
        }
    }

    #[test]
    fn a_damaged_member_is_repaired_if_its_copy_is_in_order() {
        let (mut one, mut two) = (damaged(0, 1), damaged(1, 0));
        let mut alone = damaged(2, 3);
        let mut problems = [&mut one, &mut alone, &mut two];
        ObjectProblem::forget_bad_partners(&mut problems);
        assert!(!one.is_repairable() && !two.is_repairable());
        assert!(alone.is_repairable());
        assert!(alone.to_string().ends_with("; ost3 has its bytes, too"));
    }
}
