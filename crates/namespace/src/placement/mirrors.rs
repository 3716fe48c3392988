//! The further copies of a mirrored component's stripes.

use gupfs_proto::layout::Component;
use gupfs_proto::meta::PlacementTarget;
use gupfs_proto::{FsError, InodeId, OstId};
use std::collections::BTreeSet;

/// Number of failure domains.
pub(crate) fn domain_count(targets: &[PlacementTarget]) -> usize {
    let known = (targets.iter()).filter(|it| it.domain != PlacementTarget::UNKNOWN_DOMAIN);
    let domains: BTreeSet<u32> = known.map(|target| target.domain).collect();
    domains.len()
}

/// Adds the further copies to a component that has the first copy of each stripe.
///
/// # Errors
/// `NoSpace` with fewer failure domains than copies.
pub(super) fn add_copies(
    component: &mut Component,
    targets: &[PlacementTarget],
    ino: InodeId,
) -> Result<(), FsError> {
    // `Component::stripes` counts on all copies being there.
    let (copies, stripes) = (component.copies(), component.targets.len());
    let mut without_target = Vec::new();
    for copy in 1..copies {
        for stripe in 0..stripes {
            let members: Vec<OstId> = (0..copy)
                .map(|earlier| component.targets[earlier * stripes + stripe])
                .collect();
            let target = choose_member(targets, &members, ino).ok_or(FsError::NoSpace)?;
            if !target.is_up {
                without_target.push(component.targets.len());
            }
            component.targets.push(target.ost);
        }
    }
    for index in without_target {
        // The first copy is on a usable target, so the stripe has a full member.
        component.mark_stale(index)?;
    }
    Ok(())
}

/// The target that replaces one of a stripe's members: it can be used now, and is in another failure domain than `others`, which are all other
/// members. None without such a target.
pub fn choose_replacement(
    targets: &[PlacementTarget],
    others: &[OstId],
    ino: InodeId,
) -> Option<OstId> {
    let usable = |target: &&PlacementTarget| target.usable && target.free > 0;
    let chosen = choose_member(targets, others, ino).filter(usable);
    chosen.map(|target| target.ost)
}

/// A target in another failure domain than all of `members`, with free space if there is one. Files whose first copies are on one target
/// have their second copies on all others in turn, so that the others share its work when it is lost.
fn choose_member<'a>(
    targets: &'a [PlacementTarget],
    members: &[OstId],
    ino: InodeId,
) -> Option<&'a PlacementTarget> {
    let used: BTreeSet<u32> = (targets.iter())
        .filter(|target| members.contains(&target.ost))
        .map(|target| target.domain)
        .collect();
    let is_elsewhere = |target: &&PlacementTarget| {
        target.domain != PlacementTarget::UNKNOWN_DOMAIN && !used.contains(&target.domain)
    };
    let others: Vec<&PlacementTarget> = targets.iter().filter(is_elsewhere).collect();
    let turn = (ino.counter() / targets.len() as u64) as usize;
    let has_space = |target: &&PlacementTarget| target.usable && target.free > 0;
    // One whose free space is not known, or that is full; one that is being drained, rather than none; and one that is down.
    let choices: [&dyn Fn(&&PlacementTarget) -> bool; 4] = [
        &has_space,
        &|target| target.is_up && !target.is_draining,
        &|target| target.is_up,
        &|_| true,
    ];
    choices.into_iter().find_map(|is_chosen| {
        let among: Vec<&&PlacementTarget> = others.iter().filter(|it| is_chosen(it)).collect();
        (!among.is_empty()).then(|| *among[turn % among.len()])
    })
}

#[cfg(test)]
mod tests {
    use crate::placement::choose_layout;
    use gupfs_proto::layout::{DefaultLayout, Redundancy};
    use gupfs_proto::meta::PlacementTarget;
    use gupfs_proto::{FsError, InodeId, Layout, OstId, Presence};

    /// Two targets in each domain.
    fn targets(domains: u32) -> Vec<PlacementTarget> {
        let target = |n: u32| PlacementTarget {
            ost: OstId(n as u16),
            domain: n / 2,
            is_up: true,
            usable: true,
            is_draining: false,
            why_not: None,
            total: 1000,
            free: 500,
        };
        (0..2 * domains).map(target).collect()
    }

    fn mirrored(copies: u8, targets: &[PlacementTarget], ino: u64) -> Result<Layout, FsError> {
        let mut layout = DefaultLayout::default();
        for component in &mut layout.components {
            component.redundancy = Redundancy::Mirror(copies);
        }
        choose_layout(&layout, targets, InodeId(ino), 1)
    }

    #[test]
    fn members_are_in_different_domains_and_shared_evenly() {
        let targets = targets(4);
        let mut members_on = vec![0; targets.len()];
        for ino in 300..1300 {
            for copies in 2..=4 {
                let layout = mirrored(copies, &targets, ino).unwrap();
                assert_eq!(layout.check(), Ok(()));
                for component in &layout.components {
                    for stripe in 0..component.stripes() {
                        let members = component.members(stripe);
                        let osts: Vec<u16> =
                            members.map(|index| component.targets[index].0).collect();
                        let mut domains: Vec<u16> = osts.iter().map(|ost| ost / 2).collect();
                        domains.sort_unstable();
                        domains.dedup();
                        assert_eq!(domains.len(), usize::from(copies), "{osts:?}");
                        osts.iter()
                            .for_each(|ost| members_on[usize::from(*ost)] += 1);
                    }
                }
            }
        }
        let (least, most) = (members_on.iter().min(), members_on.iter().max());
        assert!(most.unwrap() * 8 < least.unwrap() * 10, "{members_on:?}");
    }

    #[test]
    fn a_domain_without_a_target_that_is_up_gets_a_stale_member() {
        let mut targets = targets(2);
        for target in &mut targets[2..] {
            (target.usable, target.is_up) = (false, false);
        }
        let layout = mirrored(2, &targets, 300).unwrap();
        for component in &layout.components {
            for stripe in 0..component.stripes() {
                let members: Vec<usize> = component.members(stripe).collect();
                let presence = members.iter().map(|index| component.presence.get(*index));
                assert!(presence.eq([Presence::Never, Presence::Stale]));
                assert!(component.targets[members[0]].0 < 2);
            }
        }
    }

    #[test]
    fn no_member_is_placed_where_the_domain_is_not_known() {
        let mut targets = targets(3);
        for target in &mut targets[4..] {
            (target.usable, target.is_up) = (false, false);
            target.domain = PlacementTarget::UNKNOWN_DOMAIN;
        }
        for ino in 300..400 {
            let layout = mirrored(2, &targets, ino).unwrap();
            let mut osts = layout.components.iter().flat_map(|it| &it.targets);
            assert!(osts.all(|ost| ost.0 < 4));
        }
        assert_eq!(super::domain_count(&targets), 2);
        assert_eq!(mirrored(3, &targets, 300), Err(FsError::NoSpace));
    }

    #[test]
    fn fewer_domains_than_copies_are_refused() {
        assert_eq!(mirrored(3, &targets(2), 300), Err(FsError::NoSpace));
    }
}
