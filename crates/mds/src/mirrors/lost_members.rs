//! What a file has on lost OSTs.

use gupfs_proto::{InodeId, Layout, OstId, Presence};
use std::collections::BTreeSet;

/// The lost OSTs with members of the file's mirrored stripes.
pub fn lost_member_osts(layout: &Layout, is_lost: impl Fn(OstId) -> bool) -> BTreeSet<OstId> {
    let components = layout.components.iter();
    let mirrored = components.filter(|component| component.is_mirrored());
    let osts = mirrored.flat_map(|component| component.targets.iter().copied());
    osts.filter(|ost| is_lost(*ost)).collect()
}

/// Whether the file has lost bytes with `ost`: it had an object there that may exist, and all full members of the object's stripe are on lost
/// OSTs.
pub fn has_lost_bytes(
    layout: &Layout,
    ino: InodeId,
    ost: OstId,
    is_lost: impl Fn(OstId) -> bool,
) -> bool {
    layout
        .objects(ino)
        .any(|(component, index, on, _, presence)| {
            let component = &layout.components[component];
            let mut members = component.full_members(component.stripe_of(index));
            on == ost
                && matches!(presence, Presence::Maybe | Presence::Present)
                && members.all(|member| is_lost(component.targets[member]))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::layout::{ComponentKind, ComponentState};
    use gupfs_proto::{ByteCount, Component, FileOffset, Generation, PresenceMap};

    const INO: InodeId = InodeId(9);

    /// Two stripes of as many copies as the kind has, on OSTs 0, 1, …; all objects exist.
    fn layout(kind: ComponentKind) -> Layout {
        let mut component = Component {
            from: FileOffset(0),
            to: FileOffset(u64::MAX),
            kind,
            unit: ByteCount::mib(1),
            targets: vec![OstId(0), OstId(1)],
            generation: Generation(1),
            state: ComponentState::Live,
            presence: PresenceMap::new(4),
        };
        if component.copies() == 2 {
            component.targets.extend([OstId(2), OstId(3)]);
        }
        for index in 0..component.targets.len() {
            component.presence.set(index, Presence::Present);
        }
        Layout {
            components: vec![component],
        }
    }

    #[test]
    fn a_file_without_redundancy_loses_the_objects_that_it_may_have_there() {
        let mut layout = layout(ComponentKind::Plain);
        let is_lost = |ost| ost == OstId(1);
        assert!(has_lost_bytes(&layout, INO, OstId(1), is_lost));
        assert!(!has_lost_bytes(&layout, INO, OstId(0), is_lost));
        assert!(lost_member_osts(&layout, is_lost).is_empty());
        layout.components[0].presence.set(1, Presence::Never);
        assert!(!has_lost_bytes(&layout, INO, OstId(1), is_lost));
    }

    #[test]
    fn a_mirrored_file_loses_bytes_with_the_last_full_member() {
        let kind = ComponentKind::Mirrored {
            copies: 2,
            version: 0,
        };
        let mut layout = layout(kind);
        let one = |ost| ost == OstId(1);
        assert!(!has_lost_bytes(&layout, INO, OstId(1), one));
        assert!(lost_member_osts(&layout, one).into_iter().eq([OstId(1)]));
        let both = |ost| ost == OstId(1) || ost == OstId(3);
        assert!(has_lost_bytes(&layout, INO, OstId(1), both));
        assert!(has_lost_bytes(&layout, INO, OstId(3), both));
        layout.components[0].mark_stale(3).unwrap();
        assert!(has_lost_bytes(&layout, INO, OstId(1), one));
        let stale = |ost| ost == OstId(3);
        assert!(!has_lost_bytes(&layout, INO, OstId(3), stale));
    }
}
