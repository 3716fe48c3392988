//! Layouts: the mapping of a file's bytes to components, stripe units and objects. The only division that maps an offset to an
//! object is here.

mod change;
mod component;
mod default_layout;
mod mirror;
mod presence;
mod redundancy;

pub use change::{ConversionState, LayoutChange};
pub use component::{Component, ComponentKind, ComponentState};
pub use default_layout::{DefaultComponent, DefaultLayout};
pub use presence::{Presence, PresenceMap};
pub use redundancy::Redundancy;

use crate::error::FsError;
use crate::ids::{InodeId, ObjectId, OstId};
use crate::limits::{
    COMPONENTS_MAX, MIRROR_COPIES_MAX, MIRROR_COPIES_MIN, STRIPE_COUNT_MAX, STRIPE_UNIT_MAX,
    STRIPE_UNIT_MIN,
};
use crate::units::{FileOffset, ObjectOffset};
use serde::{Deserialize, Serialize};

/// Mapping of a file to objects: components in ascending ranges without gaps, the first from 0, the last to `u64::MAX`.
/// Empty while the inode record contains all bytes of the file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Layout {
    pub components: Vec<Component>,
}

/// The part of a read or write that falls into one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StripeChunk {
    pub ost: OstId,
    pub object: ObjectId,
    /// Index of the component in the layout, and of the object in the component.
    pub component: usize,
    pub index: usize,
    pub at: ObjectOffset,
    pub len: u64,
    /// Offset of the chunk in the request's buffer.
    pub buffer_offset: u64,
    pub presence: Presence,
    /// The object has other members of its stripe.
    pub is_mirrored: bool,
}

impl Layout {
    pub fn is_empty(&self) -> bool {
        self.components.is_empty()
    }

    /// Splits `offset .. offset + len` into stripe chunks, in ascending order of file offsets. A chunk of a mirrored stripe is on its first
    /// full member. Linear in the number of chunks.
    pub fn stripe_chunks(&self, ino: InodeId, offset: FileOffset, len: u64) -> Vec<StripeChunk> {
        let mut chunks: Vec<StripeChunk> = Vec::with_capacity(2);
        let end = offset.0.saturating_add(len);
        for (number, component) in self.components.iter().enumerate() {
            let mut cursor = offset.0.max(component.from.0);
            let stop = end.min(component.to.0);
            while cursor < stop {
                let (stripe, at, left) = component.locate(cursor);
                let index = component.first_full_member(stripe);
                let take = left.min(stop - cursor);
                match chunks.last_mut() {
                    // In a component with one object, adjacent stripe units are adjacent in the object, too.
                    Some(last)
                        if last.component == number
                            && last.index == index
                            && last.at.0 + last.len == at =>
                    {
                        last.len += take
                    }
                    _ => chunks.push(StripeChunk {
                        ost: component.targets[index],
                        object: component.object(ino, index),
                        component: number,
                        index,
                        at: ObjectOffset(at),
                        len: take,
                        buffer_offset: cursor - offset.0,
                        presence: component.presence.get(index),
                        is_mirrored: component.is_mirrored(),
                    }),
                }
                cursor += take;
            }
        }
        chunks
    }

    /// All objects of the layout: (component, object index, target, object, presence).
    pub fn objects(
        &self,
        ino: InodeId,
    ) -> impl Iterator<Item = (usize, usize, OstId, ObjectId, Presence)> + '_ {
        self.components
            .iter()
            .enumerate()
            .flat_map(move |(index, component)| {
                component
                    .targets
                    .iter()
                    .enumerate()
                    .map(move |(stripe, ost)| {
                        (
                            index,
                            stripe,
                            *ost,
                            component.object(ino, stripe),
                            component.presence.get(stripe),
                        )
                    })
            })
    }

    /// # Errors
    /// `Malformed` when ranges leave gaps, or units or counts are out of bounds: no record or message may contain such a layout.
    pub fn check(&self) -> Result<(), FsError> {
        let bad = |problem: &str| Err(FsError::Malformed(format!("layout: {problem}")));
        if self.components.len() > COMPONENTS_MAX {
            return bad("too many components");
        }
        let mut expected = 0;
        for component in &self.components {
            if component.from.0 != expected || component.to.0 <= component.from.0 {
                return bad("the ranges of its components leave gaps or overlap");
            }
            if !(STRIPE_UNIT_MIN..=STRIPE_UNIT_MAX).contains(&component.unit)
                || !component.unit.0.is_multiple_of(STRIPE_UNIT_MIN.0)
            {
                return bad("stripe unit out of bounds");
            }
            if component.targets.is_empty() || component.targets.len() > STRIPE_COUNT_MAX as usize {
                return bad("stripe count out of bounds");
            }
            let copies = component.copies();
            if component.is_mirrored() && !(MIRROR_COPIES_MIN..=MIRROR_COPIES_MAX).contains(&copies)
                || !component.targets.len().is_multiple_of(copies)
            {
                return bad("number of copies out of bounds");
            }
            expected = component.to.0;
        }
        if self.components.is_empty() || expected == u64::MAX {
            Ok(())
        } else {
            bad("its components do not reach the end of the file")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::ByteCount;
    use crate::{Generation, OstId};
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    pub(super) fn component(
        from: u64,
        to: u64,
        unit: u64,
        count: u16,
        generation: u32,
    ) -> Component {
        Component {
            from: FileOffset(from),
            to: FileOffset(to),
            kind: ComponentKind::Plain,
            unit: ByteCount(unit),
            targets: (0..count).map(OstId).collect(),
            generation: Generation(generation),
            state: ComponentState::Live,
            presence: PresenceMap::new(count as usize),
        }
    }

    fn check_chunks(layout: &Layout, offset: u64, end: u64, expected: Expect) {
        let text: Vec<String> = layout
            .stripe_chunks(InodeId(9), FileOffset(offset), end - offset)
            .iter()
            .map(|c| format!("{}@t{} {}..{}", c.object, c.ost, c.at, c.at.0 + c.len))
            .collect();
        expected.assert_eq(&text.join(" · "));
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_write_across_a_stripe_unit_boundary_falls_into_two_objects() {
        let layout = Layout {
            components: vec![component(0, u64::MAX, MIB, 2, 1)],
        };
        check_chunks(
            &layout,
            MIB - 6,
            MIB + 14,
            expect!["9.1.0@t0 1048570..1048576 · 9.1.1@t1 0..14"],
        );
        check_chunks(
            &layout,
            2 * MIB,
            2 * MIB + 1,
            expect!["9.1.0@t0 1048576..1048577"],
        );
    }

    #[test]
    fn a_component_with_one_object_gives_one_chunk_of_any_length() {
        let layout = Layout {
            components: vec![
                component(0, 4 * MIB, MIB, 1, 1),
                component(4 * MIB, u64::MAX, MIB, 4, 2),
            ],
        };
        check_chunks(&layout, 0, 4 * MIB, expect!["9.1.0@t0 0..4194304"]);
        check_chunks(
            &layout,
            4 * MIB - 1,
            5 * MIB + 1,
            expect!["9.1.0@t0 4194303..4194304 · 9.2.0@t0 0..1048576 · 9.2.1@t1 0..1"],
        );
    }

    #[test]
    fn setting_a_presence_leaves_the_others() {
        let mut map = PresenceMap::new(6);
        map.set(1, Presence::Maybe);
        map.set(5, Presence::Present);
        let seen: Vec<Presence> = (0..7).map(|i| map.get(i)).collect();
        use Presence::*;
        assert_eq!(seen, [Never, Maybe, Never, Never, Never, Present, Never]);
    }

    proptest! {
        #[test]
        fn locate_and_file_offset_are_inverse(offset in 0u64..1 << 50, count in 1u16..9, unit in 1u64..5) {
            let component = component(0, u64::MAX, unit << 16, count, 1);
            let (stripe, at, _) = component.locate(offset);
            prop_assert_eq!(component.file_offset(stripe, at), Some(offset));
        }

        #[test]
        fn object_sizes_add_up_to_the_files_size(size in 0u64..1 << 40, count in 1u16..9, from in 0u64..4) {
            let component = component(from << 20, u64::MAX, MIB, count, 1);
            let sum: u64 = (0..count as usize).map(|stripe| component.object_size(stripe, size)).sum();
            prop_assert_eq!(sum, size.saturating_sub(from << 20));
            let end = (0..count as usize).map(|s| component.file_size(s, component.object_size(s, size))).max().unwrap();
            prop_assert_eq!(end, if size > from << 20 { size } else { 0 });
        }

        #[test]
        fn chunks_cover_a_range_exactly_once(offset in 0u64..64 * MIB, len in 0u64..20 * MIB) {
            let layout = Layout { components: vec![component(0, 4 * MIB, MIB, 1, 1), component(4 * MIB, u64::MAX, MIB, 3, 2)] };
            let mut cursor = 0;
            for chunk in layout.stripe_chunks(InodeId(9), FileOffset(offset), len) {
                prop_assert_eq!(chunk.buffer_offset, cursor);
                cursor += chunk.len;
            }
            prop_assert_eq!(cursor, len);
        }
    }
}
