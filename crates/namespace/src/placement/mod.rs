//! The choice of OSTs for a new file's objects: a pure function of the default layout, the OSTs' last reported state and the
//! inode number.

mod mirrors;

use mirrors::domain_count;
pub use mirrors::{choose_replacement, choose_replacement_of};

use gupfs_proto::layout::{Component, ComponentState, DefaultComponent, DefaultLayout};
use gupfs_proto::limits::{MIRROR_COPIES_MAX, STRIPE_COUNT_MAX};
use gupfs_proto::meta::PlacementTarget;
use gupfs_proto::{FileOffset, FsError, Generation, InodeId, Layout, OstId, PresenceMap};

/// A layout for file `ino` whose components get generations from `generation` on.
///
/// The OST of the first object is chosen with a probability proportional to free space, and spread over inode numbers so that
/// neighbouring files are on different OSTs and every regular selection of files (each, each second, each tenth) covers all OSTs.
/// The other objects follow in OST order, and the next component continues where the last one ended, so that one file uses as
/// many OSTs as its layout allows. The members of a mirrored stripe are in different failure domains; a member on a target that is
/// down is stale from the beginning.
///
/// # Errors
/// `NoSpace` without a usable target, or with fewer domains than copies.
pub fn choose_layout(
    default_layout: &DefaultLayout,
    targets: &[PlacementTarget],
    ino: InodeId,
    generation: u32,
) -> Result<Layout, FsError> {
    let usable: Vec<&PlacementTarget> = targets
        .iter()
        .filter(|target| target.usable && target.free > 0)
        .collect();
    if usable.is_empty() {
        return Err(FsError::NoSpace);
    }
    let mut next = pick_by_free_space(&usable, ino);
    let mut from = FileOffset(0);
    let mut components = Vec::with_capacity(default_layout.components.len());
    for (template, generation) in default_layout.components.iter().zip(generation..) {
        let first = template
            .first
            .and_then(|first| usable.iter().position(|target| target.ost == first))
            .unwrap_or(next);
        let count = stripe_count(template, usable.len());
        let first_copies = (0..count).map(|i| usable[(first + i) % usable.len()].ost);
        let mut component = Component {
            from,
            to: template.to,
            kind: template.redundancy.kind(),
            unit: template.unit,
            targets: first_copies.collect(),
            presence: PresenceMap::new(count * template.redundancy.copies()),
            generation: Generation(generation),
            state: ComponentState::Live,
        };
        mirrors::add_copies(&mut component, targets, ino)?;
        components.push(component);
        from = template.to;
        next = (first + count) % usable.len();
    }
    Ok(Layout { components })
}

/// # Errors
/// `Invalid` for a layout that no file can have: its ranges, units or counts are out of bounds, or there are fewer failure domains than copies.
pub(crate) fn check_default_layout(
    layout: &DefaultLayout,
    targets: &[PlacementTarget],
) -> Result<(), FsError> {
    layout.check()?;
    let copies = layout.components.iter().map(|c| c.redundancy.copies());
    let copies = copies.max().unwrap_or(1);
    let fits = copies <= MIRROR_COPIES_MAX && copies <= domain_count(targets).max(1);
    fits.then_some(()).ok_or(FsError::Invalid)
}

/// Whether a file with this layout is laid out as the default layout says, on however many of these targets it got.
pub(crate) fn has_shape(
    layout: &Layout,
    default_layout: &DefaultLayout,
    targets: &[PlacementTarget],
) -> bool {
    let usable = targets.iter().filter(|it| it.usable && it.free > 0).count();
    let found = layout.as_default().components;
    let wanted = &default_layout.components;
    found.len() == wanted.len()
        && found.iter().zip(wanted).all(|(found, wanted)| {
            let count = stripe_count(wanted, usable);
            found.to == wanted.to
                && found.unit == wanted.unit
                && found.redundancy == wanted.redundancy
                && (found.count == wanted.count || found.count as usize == count)
        })
}

fn stripe_count(template: &DefaultComponent, usable: usize) -> usize {
    let most = usable.min(STRIPE_COUNT_MAX as usize);
    let count = match template.count {
        0 => most,
        count => most.min(count as usize),
    };
    // All objects of the component have room in its record.
    count.min(STRIPE_COUNT_MAX as usize / template.redundancy.copies())
}

/// The OST to which an object of file `ino` moves, away from its own: one with space, without another object of the stripe's component
/// (`others`) if there is such a one. None if no OST has space.
pub fn choose_move(targets: &[PlacementTarget], others: &[OstId], ino: InodeId) -> Option<OstId> {
    let usable = targets.iter().filter(|it| it.usable && it.free > 0);
    let usable: Vec<&PlacementTarget> = usable.collect();
    let is_new = |target: &&&PlacementTarget| !others.contains(&target.ost);
    let new: Vec<&PlacementTarget> = usable.iter().filter(is_new).copied().collect();
    let among = if new.is_empty() { usable } else { new };
    (!among.is_empty()).then(|| among[pick_by_free_space(&among, ino)].ost)
}

/// The fractional parts of n·φ for n = 0, 1, 2, … are distributed evenly over 0..1, those of every k-th n too, because φ is the
/// number that is hardest to approximate by fractions.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Index of an OST, chosen as often as its share of the free space.
fn pick_by_free_space(usable: &[&PlacementTarget], ino: InodeId) -> usize {
    let total: u128 = usable.iter().map(|target| u128::from(target.free)).sum();
    let fraction = ino
        .counter()
        .wrapping_add(u64::from(ino.shard().0) << 32)
        .wrapping_mul(GOLDEN);
    let mut point = (u128::from(fraction) * total) >> u64::BITS;
    for (index, target) in usable.iter().enumerate() {
        match point.checked_sub(u128::from(target.free)) {
            None => return index,
            Some(rest) => point = rest,
        }
    }
    unreachable!("the point lies below the sum")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use std::collections::BTreeSet;

    fn targets(free: &[u64]) -> Vec<PlacementTarget> {
        let target = |(i, free): (usize, &u64)| PlacementTarget {
            ost: OstId(i as u16),
            domain: i as u32,
            is_up: true,
            usable: true,
            is_draining: false,
            why_not: None,
            total: 1000,
            free: *free,
        };
        free.iter().enumerate().map(target).collect()
    }

    fn files_per_target(targets: &[PlacementTarget], step: u64) -> Vec<usize> {
        let mut count = vec![0; targets.len()];
        for i in 0..1000 {
            let layout = choose_layout(
                &DefaultLayout::default(),
                targets,
                InodeId(300 + i * step),
                0,
            )
            .unwrap();
            count[usize::from(layout.components[0].targets[0].0)] += 1;
        }
        count
    }

    fn describe(layout: &Layout) -> String {
        let component = |c: &Component| {
            let targets: Vec<String> = c.targets.iter().map(|ost| ost.to_string()).collect();
            format!("{}.. {} on {}", c.from, c.generation, targets.join(","))
        };
        layout
            .components
            .iter()
            .map(component)
            .collect::<Vec<_>>()
            .join(" · ")
    }

    fn check_layout(free: &[u64], default_layout: &DefaultLayout, expected: Expect) {
        expected.assert_eq(&describe(
            &choose_layout(default_layout, &targets(free), InodeId(300), 7).unwrap(),
        ));
    }

    #[test]
    fn many_files_spread_evenly_over_equal_targets_whichever_of_them_are_big() {
        for step in [1, 2, 3, 4, 10, 64] {
            for count in files_per_target(&targets(&[50, 50, 50, 50]), step) {
                assert!((240..=260).contains(&count), "step {step}: {count} of 1000");
            }
        }
    }

    #[test]
    fn an_object_moves_to_a_target_with_space_and_without_another_object_of_the_file_if_there_is_one()
     {
        let mut targets = targets(&[50, 50, 0, 50, 50]);
        // Target 0 is drained.
        (targets[0].usable, targets[0].is_draining) = (false, true);
        let moved = |targets: &[PlacementTarget], others: &[u16]| -> BTreeSet<u16> {
            let others: Vec<OstId> = others.iter().map(|ost| OstId(*ost)).collect();
            let to = |i: u64| choose_move(targets, &others, InodeId(300 + i));
            (0..100).filter_map(to).map(|ost| ost.0).collect()
        };
        assert_eq!(moved(&targets, &[0]), BTreeSet::from([1, 3, 4]));
        assert_eq!(moved(&targets, &[0, 1, 3]), BTreeSet::from([4]));
        assert_eq!(moved(&targets, &[0, 1, 3, 4]), BTreeSet::from([1, 3, 4]));
        for target in &mut targets {
            target.usable = false;
        }
        assert_eq!(moved(&targets, &[0]), BTreeSet::new());
    }

    #[test]
    fn fuller_targets_get_fewer_files() {
        let counts = files_per_target(&targets(&[10, 30, 60]), 1);
        for (count, share) in counts.into_iter().zip([100, 300, 600]) {
            assert!(
                (share - 10..=share + 10).contains(&count),
                "{count} for {share}"
            );
        }
    }

    #[test]
    fn a_file_uses_as_many_targets_as_its_default_layout_says() {
        check_layout(
            &[50; 6],
            &DefaultLayout::default(),
            expect!["0.. 7 on 2 · 4194304.. 8 on 3,4,5,0"],
        );
        check_layout(
            &[50; 2],
            &DefaultLayout::default(),
            expect!["0.. 7 on 0 · 4194304.. 8 on 1,0"],
        );
        let mut wide = DefaultLayout::default();
        wide.components[0].first = Some(OstId(3));
        wide.components[1].count = 0;
        check_layout(
            &[50; 4],
            &wide,
            expect!["0.. 7 on 3 · 4194304.. 8 on 0,1,2,3"],
        );
    }

    #[test]
    fn unusable_and_full_targets_get_nothing() {
        let mut targets = targets(&[50, 0, 50]);
        targets[0].usable = false;
        for i in 0..10 {
            let layout = choose_layout(&DefaultLayout::default(), &targets, InodeId(i), 0).unwrap();
            assert!(layout.components.iter().all(|c| c.targets == [OstId(2)]));
        }
        targets[2].usable = false;
        assert_eq!(
            choose_layout(&DefaultLayout::default(), &targets, InodeId(1), 0),
            Err(FsError::NoSpace)
        );
    }

    #[test]
    fn every_chosen_layout_is_valid() {
        for count in 1..6 {
            let layout = choose_layout(
                &DefaultLayout::default(),
                &targets(&vec![9; count]),
                InodeId(77),
                3,
            )
            .unwrap();
            assert_eq!(layout.check(), Ok(()));
        }
    }
}
