//! The members of mirrored stripes in the state of a file.

use super::member_object::MemberObject;
use super::object_state::ObjectState;
use super::objects::FileObjects;
use gupfs_proto::{Generation, InodeId, Layout, ObjectId, OstId, Presence};
use std::collections::BTreeSet;

impl FileObjects {
    /// The full members of the stripe that this object belongs to; only the object itself without redundancy. None if the layout does not
    /// have the object any more.
    pub fn members_like(&self, object: &ObjectId) -> Option<Vec<MemberObject>> {
        let (component, index) = self.position_of(object)?;
        Some(self.members(object.ino, component, index))
    }

    /// The same for an object by its place in the layout.
    pub fn members(&self, ino: InodeId, component: usize, index: usize) -> Vec<MemberObject> {
        let part = &self.layout.components[component];
        let first = self.index(component, 0);
        let member = |index: usize| MemberObject {
            component,
            index,
            ost: part.targets[index],
            object: part.object(ino, index),
            presence: match part.presence.get(index) {
                Presence::Present if self.states[first + index].sync.may_be_lost() => {
                    Presence::Maybe
                }
                presence => presence,
            },
        };
        part.full_members(part.stripe_of(index))
            .map(member)
            .collect()
    }

    /// Which objects clients read and write: of each component its generation, and the version of its set of full members.
    pub fn objects_version(&self) -> Vec<(Generation, u32)> {
        let components = self.layout.components.iter();
        components
            .map(|component| (component.generation, component.members_version()))
            .collect()
    }

    pub fn is_stale(&self, object: &ObjectId) -> bool {
        let position = self.position_of(object);
        position.is_some_and(|(component, index)| {
            self.layout.components[component].presence.get(index) == Presence::Stale
        })
    }

    /// The OSTs of the other full members, which have the same bytes as the object.
    pub fn partners(&self, object: &ObjectId) -> Vec<OstId> {
        let Some((component, index)) = self.position_of(object) else {
            return Vec::new();
        };
        let component = &self.layout.components[component];
        let members = component.full_members(component.stripe_of(index));
        let others = members.filter(|member| *member != index);
        others.map(|other| component.targets[other]).collect()
    }

    /// The full members on this OST of stripes that have another one on a target that is not silent.
    pub fn dispensable_members(
        &self,
        ino: InodeId,
        ost: OstId,
        is_silent: impl Fn(OstId) -> bool,
    ) -> Vec<MemberObject> {
        let components = self.layout.components.iter().enumerate();
        let mirrored = components.filter(|(_, component)| component.is_mirrored());
        let members = mirrored.flat_map(|(number, component)| {
            let stripes: BTreeSet<usize> = (0..component.targets.len())
                .map(|index| component.stripe_of(index))
                .collect();
            let members = stripes.into_iter();
            members.map(move |stripe| self.members(ino, number, stripe))
        });
        let dispensable = members.filter_map(|members| {
            let has_other = (members.iter()).any(|it| it.ost != ost && !is_silent(it.ost));
            let on_it = members.into_iter().find(|member| member.ost == ost);
            on_it.filter(|_| has_other)
        });
        dispensable.collect()
    }

    pub fn is_mirrored(&self, component: usize) -> bool {
        self.layout.components[component].is_mirrored()
    }

    /// All members of a stripe are about to be changed.
    pub fn mark_members_dirty(&mut self, component: usize, index: usize) {
        let part = &self.layout.components[component];
        if !part.is_mirrored() {
            return self.mark_dirty(component, index);
        }
        let members: Vec<usize> = part.full_members(part.stripe_of(index)).collect();
        for member in members {
            self.mark_dirty(component, member);
        }
    }

    /// The metadata server has recorded that members are stale: they are neither read nor written nor synced any more.
    pub fn note_stale_members(&mut self, recorded: &Layout) {
        let mut first = 0;
        for component in &mut self.layout.components {
            let same = |other: &&gupfs_proto::Component| other.generation == component.generation;
            if let Some(recorded) = recorded.components.iter().find(same) {
                component.kind = recorded.kind;
                for index in 0..component.targets.len() {
                    if recorded.presence.get(index) == Presence::Stale {
                        component.presence.set(index, Presence::Stale);
                        self.states[first + index] = ObjectState::default();
                    }
                }
            }
            first += component.targets.len();
        }
    }

    /// The server has recorded members on this OST as stale. Which, the client must ask before it uses any.
    pub fn leave_out_members(&mut self, ost: OstId) {
        let components = self.layout.components.iter();
        let mut mirrored = components.filter(|component| component.is_mirrored());
        self.may_have_unknown_stale |= mirrored.any(|component| component.targets.contains(&ost));
    }

    /// Whether more members may be stale than are known here.
    pub fn may_have_unknown_stale(&self) -> bool {
        self.may_have_unknown_stale
    }

    /// The server has told all stale members, and none since.
    pub fn all_stale_known(&mut self) {
        self.may_have_unknown_stale = false;
    }

    /// The states of the objects that count: of each stripe the first full member.
    pub(super) fn counted_states(&self) -> impl Iterator<Item = &ObjectState> {
        let components = self.layout.components.iter();
        let counts = components.flat_map(|component| {
            (0..component.targets.len()).map(|index| component.is_first_full_member(index))
        });
        (self.states.iter().zip(counts)).filter_map(|(state, counts)| counts.then_some(state))
    }

    /// The component and the index of an object; None if the layout has no such object any more.
    pub fn position_of(&self, object: &ObjectId) -> Option<(usize, usize)> {
        let mut components = self.layout.components.iter().enumerate();
        components.find_map(|(number, component)| Some((number, component.index_of(object)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inodes::state::fixtures::layout;
    use gupfs_proto::data::ObjectStat;
    use gupfs_proto::layout::ComponentKind;
    use gupfs_proto::{ByteCount, FileOffset, WriteVerifier};

    const INO: InodeId = InodeId(5);

    /// One stripe with two members.
    fn mirrored() -> FileObjects {
        let mut layout = layout(Presence::Maybe);
        layout.components[0].kind = ComponentKind::Mirrored {
            copies: 2,
            version: 1,
        };
        let mut objects = FileObjects::default();
        objects.adopt_layout(INO, layout, true, true);
        objects
    }

    fn osts(objects: &FileObjects) -> Vec<u16> {
        let members = objects.members(INO, 0, 0);
        members.iter().map(|member| member.ost.0).collect()
    }

    #[test]
    fn a_stale_member_is_neither_synced_nor_reported_nor_counted() {
        let mut objects = mirrored();
        let first = objects.chunks(INO, FileOffset(0), ByteCount(9), ByteCount(9))[0];
        objects.mark_members_dirty(first.component, first.index);
        let stat = |blocks| {
            let stat = ObjectStat {
                blocks,
                ..ObjectStat::default()
            };
            (stat, WriteVerifier(1))
        };
        objects.written(0, 0, stat(8));
        objects.written(0, 1, stat(16));
        assert_eq!(objects.blocks(), Some(8), "each byte counts once");
        assert_eq!(objects.unsynced(INO).len(), 2);
        let all = osts(&objects);
        let mut recorded = objects.layout().clone();
        recorded.components[0].mark_stale(0).unwrap();
        objects.note_stale_members(&recorded);
        assert_eq!(osts(&objects), all[1..]);
        assert_eq!(objects.blocks(), Some(16));
        assert_eq!(objects.unsynced(INO).len(), 1);
        assert_eq!(objects.reported().unsynced, [(0, 1)]);
        assert!(objects.unknown(INO).is_empty());
        // A reply that comes late changes nothing.
        let object = objects.layout().components[0].object(INO, 0);
        objects.learned(object, None);
        assert_eq!(osts(&objects), all[1..]);
    }

    #[test]
    fn a_late_reply_does_not_make_a_stale_member_count_again() {
        let mut objects = mirrored();
        objects.mark_members_dirty(0, 0);
        let mut recorded = objects.layout().clone();
        recorded.components[0].mark_stale(1).unwrap();
        objects.note_stale_members(&recorded);
        let stat = ObjectStat {
            size: 9,
            blocks: 8,
            mtime: gupfs_proto::Timestamp::new(5, 0),
        };
        objects.written(0, 1, (stat, WriteVerifier(3)));
        objects.cleared(0, 1, (stat, WriteVerifier(3)));
        assert_eq!(osts(&objects).len(), 1);
        assert_eq!(objects.unsynced(INO).len(), 1);
    }

    #[test]
    fn a_member_that_was_synced_again_counts_with_the_servers_presence() {
        let mut objects = mirrored();
        let mut recorded = objects.layout().clone();
        recorded.components[0].mark_stale(1).unwrap();
        objects.note_stale_members(&recorded);
        assert_eq!(osts(&objects).len(), 1);
        recorded.components[0].presence.set(0, Presence::Present);
        recorded.components[0].mark_full(1);
        objects.adopt_layout(INO, recorded, false, true);
        assert_eq!(osts(&objects).len(), 2);
        assert_eq!(
            objects.layout().components[0].presence.get(1),
            Presence::Present
        );
    }
}
