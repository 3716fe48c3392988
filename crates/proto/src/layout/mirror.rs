//! Mirrored components: the members of a stripe, and which of them are stale.

use super::{Component, ComponentKind, Layout, Presence};
use crate::error::FsError;
use crate::ids::OstId;

impl Layout {
    pub fn is_mirrored(&self) -> bool {
        self.components.iter().any(Component::is_mirrored)
    }

    pub fn has_stale_member(&self) -> bool {
        self.components.iter().any(Component::has_stale_member)
    }
}

impl Component {
    /// Number of objects with the same bytes: 1 without redundancy.
    pub fn copies(&self) -> usize {
        match self.kind {
            ComponentKind::Plain => 1,
            ComponentKind::Mirrored { copies, .. } => usize::from(copies.max(1)),
        }
    }

    pub fn is_mirrored(&self) -> bool {
        matches!(self.kind, ComponentKind::Mirrored { .. })
    }

    /// Number of stripes: of objects with different bytes.
    pub fn stripes(&self) -> usize {
        (self.targets.len() / self.copies()).max(1)
    }

    /// The stripe of an object.
    pub fn stripe_of(&self, index: usize) -> usize {
        index % self.stripes()
    }

    /// The object indices of a stripe's members, the first copy first.
    pub fn members(&self, stripe: usize) -> impl Iterator<Item = usize> + use<> {
        (stripe..self.targets.len()).step_by(self.stripes())
    }

    /// The members of a stripe that clients read and write: all of them have every answered write.
    pub fn full_members(&self, stripe: usize) -> impl Iterator<Item = usize> + '_ {
        let is_full = |index: &usize| self.presence.get(*index) != Presence::Stale;
        self.members(stripe).filter(is_full)
    }

    /// The member whose state counts as the stripe's: the first one that is not stale.
    pub fn first_full_member(&self, stripe: usize) -> usize {
        self.full_members(stripe).next().unwrap_or(stripe)
    }

    /// Whether the object's state counts as its stripe's.
    pub fn is_first_full_member(&self, index: usize) -> bool {
        self.first_full_member(self.stripe_of(index)) == index
    }

    pub fn has_stale_member(&self) -> bool {
        let mut objects = 0..self.targets.len();
        objects.any(|index| self.presence.get(index) == Presence::Stale)
    }

    /// Marks a member as stale; returns whether it was not stale before.
    ///
    /// # Errors
    /// `Invalid` for an object that is not there or has no other full member: its bytes would be lost.
    pub fn mark_stale(&mut self, index: usize) -> Result<bool, FsError> {
        if index >= self.targets.len() {
            return Err(FsError::Invalid);
        }
        if self.presence.get(index) == Presence::Stale {
            return Ok(false);
        }
        let mut full = self.full_members(self.stripe_of(index));
        if !full.any(|member| member != index) {
            return Err(FsError::Invalid);
        }
        drop(full);
        self.presence.set(index, Presence::Stale);
        self.raise_version();
        Ok(true)
    }

    /// Gives a member another target: its object there is stale.
    ///
    /// # Errors
    /// `Invalid` for an object that is not there or is the last full member of its stripe.
    pub fn replace_member(&mut self, index: usize, target: OstId) -> Result<(), FsError> {
        self.mark_stale(index)?;
        self.targets[index] = target;
        self.raise_version();
        Ok(())
    }

    /// The object is on another target from now on, with the same bytes.
    ///
    /// # Errors
    /// `Invalid` without such an object.
    pub fn move_object(&mut self, index: usize, target: OstId) -> Result<(), FsError> {
        *self.targets.get_mut(index).ok_or(FsError::Invalid)? = target;
        self.raise_version();
        Ok(())
    }

    /// A stale member has every byte that the stripe's full members have.
    pub fn mark_full(&mut self, index: usize) {
        if self.presence.get(index) == Presence::Stale {
            let source = self.first_full_member(self.stripe_of(index));
            self.presence.set(index, self.presence.get(source));
            self.raise_version();
        }
    }

    /// The version of the set of full members; 0 without redundancy.
    pub fn members_version(&self) -> u32 {
        match self.kind {
            ComponentKind::Plain => 0,
            ComponentKind::Mirrored { version, .. } => version,
        }
    }

    fn raise_version(&mut self) {
        if let ComponentKind::Mirrored { version, .. } = &mut self.kind {
            *version = version.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::component;
    use crate::{InodeId, ObjectId};
    use proptest::prelude::*;

    fn mirrored(stripes: u16, copies: u8) -> Component {
        let objects = stripes * u16::from(copies);
        let mut mirrored = component(0, u64::MAX, 1 << 20, objects, 7);
        mirrored.kind = ComponentKind::Mirrored { copies, version: 1 };
        mirrored
    }

    #[test]
    fn the_first_copies_are_arranged_as_without_redundancy() {
        let (plain, mirrored) = (component(0, u64::MAX, 1 << 20, 3, 7), mirrored(3, 2));
        assert_eq!((mirrored.stripes(), mirrored.copies()), (3, 2));
        for stripe in 0..3 {
            assert_eq!(
                mirrored.members(stripe).collect::<Vec<_>>(),
                [stripe, stripe + 3]
            );
            assert_eq!(
                mirrored.object(InodeId(9), stripe),
                plain.object(InodeId(9), stripe)
            );
        }
        let second = mirrored.object(InodeId(9), 4);
        assert_eq!((second.stripe & 0xffff, second.copy()), (1, 1));
    }

    #[test]
    fn the_last_full_member_never_becomes_stale() {
        let mut component = mirrored(2, 3);
        assert_eq!(component.mark_stale(0), Ok(true));
        assert_eq!(component.mark_stale(0), Ok(false));
        assert_eq!(component.first_full_member(0), 2);
        assert_eq!(component.mark_stale(4), Ok(true));
        assert_eq!(component.mark_stale(2), Err(FsError::Invalid));
        assert_eq!(component.mark_stale(6), Err(FsError::Invalid));
        assert_eq!(component.members_version(), 3);
        assert!(component.full_members(1).eq([1, 3, 5]));
        component.mark_full(0);
        assert_eq!(
            (component.first_full_member(0), component.members_version()),
            (0, 4)
        );
    }

    #[test]
    fn a_replaced_member_keeps_its_object_and_is_stale() {
        let mut component = mirrored(2, 2);
        let object = component.object(InodeId(9), 1);
        component.replace_member(1, OstId(70)).unwrap();
        assert_eq!(component.targets[1], OstId(70));
        assert_eq!(component.object(InodeId(9), 1), object);
        assert_eq!(component.first_full_member(1), 3);
        // A stale one may be replaced again; the last full one never.
        component.replace_member(1, OstId(71)).unwrap();
        assert_eq!(
            component.replace_member(3, OstId(72)),
            Err(FsError::Invalid)
        );
        assert_eq!(component.targets[3], OstId(3));
    }

    #[test]
    fn chunks_are_on_the_first_full_members() {
        let mut component = mirrored(2, 2);
        component.mark_stale(1).unwrap();
        let layout = Layout {
            components: vec![component],
        };
        let chunks = layout.stripe_chunks(InodeId(9), crate::FileOffset(0), 2 << 20);
        let on: Vec<OstId> = chunks.iter().map(|chunk| chunk.ost).collect();
        assert_eq!(on, [OstId(0), OstId(3)]);
        assert_eq!(chunks[1].index, 3);
    }

    proptest! {
        #[test]
        fn the_members_of_a_stripe_have_the_same_arithmetic(offset in 0u64..1 << 40, stripes in 1u16..6, copies in 2u8..5) {
            let mirrored = mirrored(stripes, copies);
            let (stripe, at, _) = mirrored.locate(offset);
            for member in mirrored.members(stripe) {
                prop_assert_eq!(mirrored.stripe_of(member), stripe);
                prop_assert_eq!(mirrored.file_offset(member, at), Some(offset));
                prop_assert_eq!(mirrored.object_size(member, offset), mirrored.object_size(stripe, offset));
                let object = mirrored.object(InodeId(3), member);
                prop_assert_eq!(mirrored.index_of(&object), Some(member));
                prop_assert_eq!(object.to_string().parse::<ObjectId>(), Ok(object));
            }
        }
    }
}
