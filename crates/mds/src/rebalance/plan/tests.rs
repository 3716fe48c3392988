use super::*;
use gupfs_proto::layout::{ComponentKind, ComponentState};
use gupfs_proto::{ByteCount, FileOffset, Generation, PresenceMap};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
const ANY: PassRule = PASSES[2];

/// A target of 100 GiB with a volume and a failure domain of its own.
fn target(ost: u16, used_gib: u64) -> TargetUse {
    TargetUse {
        ost: OstId(ost),
        domain: u32::from(ost),
        volume: u64::from(ost),
        total: 100 * GIB,
        used: used_gib * GIB,
        available: (99 - used_gib) * GIB,
        is_usable: true,
    }
}

fn component(from: u64, to: u64, osts: &[u16], copies: u8) -> Component {
    let mut presence = PresenceMap::new(osts.len());
    (0..osts.len()).for_each(|index| presence.set(index, Presence::Present));
    Component {
        from: FileOffset(from),
        to: FileOffset(to),
        kind: match copies {
            1 => ComponentKind::Plain,
            copies => ComponentKind::Mirrored { copies, version: 0 },
        },
        unit: ByteCount(MIB),
        targets: osts.iter().map(|ost| OstId(*ost)).collect(),
        generation: Generation(7),
        state: ComponentState::Live,
        presence,
    }
}

fn striped(osts: &[u16]) -> Layout {
    Layout {
        components: vec![component(0, u64::MAX, osts, 1)],
    }
}

fn file(layout: &Layout, ino: u64, size: u64) -> PlannedFile<'_> {
    PlannedFile {
        ino: InodeId(ino),
        layout,
        size,
        blocks: size / 512,
    }
}

/// Rounded.
fn left_gib(plan: &RebalancePlan) -> u64 {
    (plan.bytes_left() + GIB / 2) / GIB
}

/// The targets of the first component that moves.
fn moved_to(plan: &RebalancePlan, layout: &Layout, size: u64, rule: PassRule) -> Option<Vec<u16>> {
    let moves = plan.choose(&file(layout, 300, size), rule)?;
    let targets = &moves.components[0].targets;
    Some(targets.iter().map(|ost| ost.0).collect())
}

#[test]
fn many_files_move_until_all_volumes_are_as_full_as_the_mean() {
    let mut plan = RebalancePlan::new(&[target(0, 60), target(1, 60), target(2, 0)]);
    let mut layouts: Vec<Layout> = (0..120).map(|i| striped(&[i % 2])).collect();
    assert!(!plan.is_within(30.0) && left_gib(&plan) == 40);
    let mut moved = 0;
    for (ino, layout) in layouts.iter_mut().enumerate() {
        if plan.is_within(1.0) {
            break;
        }
        let moves = plan.choose(&file(layout, 300 + ino as u64, GIB), PASSES[0]);
        if let Some(moves) = moves {
            layout.components[0].targets = moves.components[0].targets.clone();
            moved += moves.bytes() / GIB;
            plan.moved(&moves);
        }
    }
    assert!(plan.is_within(1.0), "{plan:?}");
    // No more than that moves, and nothing back.
    assert!((37..=40).contains(&moved), "{moved}");
    let mut all = layouts.iter();
    assert!(all.all(|layout| moved_to(&plan, layout, 8 * GIB, ANY).is_none()));
}

#[test]
fn an_object_moves_only_if_the_spread_becomes_smaller() {
    let plan = RebalancePlan::new(&[target(0, 40), target(1, 36)]);
    assert_eq!(moved_to(&plan, &striped(&[0]), GIB, ANY), Some(vec![1]));
    // It would make the other one as full as this one is.
    assert_eq!(moved_to(&plan, &striped(&[0]), 4 * GIB, ANY), None);
    assert_eq!(moved_to(&plan, &striped(&[1]), GIB, ANY), None);
}

#[test]
fn targets_on_one_volume_count_once_and_nothing_moves_between_them() {
    let mut same = target(1, 60);
    same.volume = 0;
    let plan = RebalancePlan::new(&[target(0, 60), same.clone()]);
    assert!(plan.is_within(0.0));
    let mut plan = RebalancePlan::new(&[target(0, 60), same, target(2, 0)]);
    assert_eq!(left_gib(&plan), 30);
    let layout = striped(&[1]);
    let moves = plan.choose(&file(&layout, 300, GIB), ANY).unwrap();
    assert_eq!(moves.components[0].targets, [OstId(2)]);
    plan.moved(&moves);
    assert_eq!(left_gib(&plan), 29);
}

#[test]
fn objects_of_one_component_stay_on_different_targets() {
    let plan = RebalancePlan::new(&[target(0, 60), target(1, 60), target(2, 0)]);
    let moved = moved_to(&plan, &striped(&[0, 1]), GIB, ANY);
    assert!(
        matches!(moved.as_deref(), Some([2, 1] | [0, 2])),
        "{moved:?}"
    );
    // One object is there already.
    assert_eq!(moved_to(&plan, &striped(&[0, 2]), GIB, ANY), None);
}

#[test]
fn a_copy_must_pay_for_itself_in_the_first_passes() {
    let targets: Vec<TargetUse> = (0..4).map(|ost| target(ost, 60)).collect();
    let plan = RebalancePlan::new(&[targets, vec![target(4, 0)]].concat());
    let wide = striped(&[0, 1, 2, 3]);
    // A quarter of what is copied moves.
    assert_eq!(moved_to(&plan, &wide, GIB, PASSES[0]), None);
    assert!(moved_to(&plan, &wide, GIB, PASSES[1]).is_some());
    let small = striped(&[0]);
    assert_eq!(moved_to(&plan, &small, MIB / 2, PASSES[1]), None);
    assert!(moved_to(&plan, &small, MIB / 2, ANY).is_some());
    // Holes are not copied.
    let sparse = PlannedFile {
        blocks: 8,
        ..file(&small, 300, GIB)
    };
    assert_eq!(plan.choose(&sparse, PASSES[1]), None);
    let moves = plan.choose(&sparse, ANY).unwrap();
    assert_eq!(moves.bytes(), 4096);
}

#[test]
fn only_the_component_that_pays_is_copied() {
    let plan = RebalancePlan::new(&[target(0, 60), target(1, 10), target(2, 10)]);
    let layout = Layout {
        components: vec![
            component(0, 4 * MIB, &[1], 1),
            component(4 * MIB, u64::MAX, &[0], 1),
        ],
    };
    let moves = plan.choose(&file(&layout, 300, GIB), PASSES[0]).unwrap();
    let indexes: Vec<usize> = moves.components.iter().map(|it| it.index).collect();
    assert_eq!((indexes, moves.bytes()), (vec![1], GIB - 4 * MIB));
}

#[test]
fn members_stay_in_different_failure_domains_and_stale_ones_where_they_are() {
    let mut beside = target(2, 0);
    beside.domain = 1;
    let uses = [target(0, 60), target(1, 60), beside.clone()];
    let mirrored = Layout {
        components: vec![component(0, u64::MAX, &[0, 1], 2)],
    };
    let plan = RebalancePlan::new(&uses);
    // The other member is in the domain of the empty target.
    assert_eq!(moved_to(&plan, &mirrored, GIB, ANY), Some(vec![0, 2]));
    let mut stale = mirrored.clone();
    stale.components[0].presence.set(0, Presence::Stale);
    assert_eq!(moved_to(&plan, &stale, GIB, ANY), None);
    beside.domain = PlacementTarget::UNKNOWN_DOMAIN;
    let plan = RebalancePlan::new(&[target(0, 60), target(1, 60), beside]);
    assert_eq!(moved_to(&plan, &mirrored, GIB, ANY), None);
    // The domain of a target that is not up is not known here.
    let plan = RebalancePlan::new(&[target(0, 60), target(2, 0)]);
    assert_eq!(moved_to(&plan, &mirrored, GIB, ANY), None);
}

#[test]
fn nothing_moves_where_it_has_no_room() {
    let mut full = target(1, 0);
    full.available = GIB;
    let plan = RebalancePlan::new(&[target(0, 60), full.clone()]);
    assert!(moved_to(&plan, &striped(&[0]), GIB / 2, ANY).is_some());
    assert_eq!(moved_to(&plan, &striped(&[0]), GIB, ANY), None);
    full.is_usable = false;
    let plan = RebalancePlan::new(&[target(0, 60), full]);
    assert_eq!(moved_to(&plan, &striped(&[0]), GIB / 2, ANY), None);
    // Also for the objects that stay on their targets, which are copied, too.
    let mut source = target(0, 60);
    source.available = GIB / 4;
    let plan = RebalancePlan::new(&[source, target(1, 60), target(2, 0)]);
    assert_eq!(
        moved_to(&plan, &striped(&[0, 1]), 4 * GIB, ANY),
        Some(vec![2, 1])
    );
    assert_eq!(moved_to(&plan, &striped(&[1, 0]), 4 * GIB, ANY), None);
}
