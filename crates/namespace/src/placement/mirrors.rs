//! The further copies of a mirrored component's stripes.

use gupfs_proto::layout::Component;
use gupfs_proto::meta::PlacementTarget;
use gupfs_proto::{FsError, InodeId, OstId};
use std::collections::{BTreeMap, BTreeSet};

/// So many files of a shard, by their inode numbers, have their copies at the same distance.
const FILES_OF_A_DISTANCE: u64 = 256;

/// Number of failure domains.
pub(crate) fn domain_count(targets: &[PlacementTarget]) -> usize {
    let known = (targets.iter()).filter(|it| it.domain != PlacementTarget::UNKNOWN_DOMAIN);
    let domains: BTreeSet<u32> = known.map(|target| target.domain).collect();
    domains.len()
}

/// Adds the further copies to a component that has the first copy of each stripe.
///
/// In the order of `TargetOrder` the next copy is always as many steps behind the former one for all stripes of a component, and for the files
/// whose inode numbers are close together. So the stripes of one file load all targets equally, and programs that write such files at the
/// same time can each have a pair of targets without another's work (chained declustering: Hsiao and DeWitt, ICDE 1990). Other files have
/// other distances, so that all targets share the work of one that is lost.
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
    if copies == 1 {
        return Ok(());
    }
    let order = TargetOrder::new(targets);
    let distance = (ino.counter() / FILES_OF_A_DISTANCE) as usize;
    let mut without_target = Vec::new();
    for copy in 1..copies {
        for stripe in 0..stripes {
            let members: Vec<OstId> = (0..copy)
                .map(|earlier| component.targets[earlier * stripes + stripe])
                .collect();
            let target = order.choose(&members, distance).ok_or(FsError::NoSpace)?;
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
/// members. None without such a target. The files of a lost target get all others in turn.
pub fn choose_replacement(
    targets: &[PlacementTarget],
    others: &[OstId],
    ino: InodeId,
) -> Option<OstId> {
    let usable = |target: &&PlacementTarget| target.usable && target.free > 0;
    let turn = (ino.counter() / targets.len().max(1) as u64) as usize;
    let chosen = TargetOrder::new(targets).choose(others, turn);
    chosen.filter(usable).map(|target| target.ost)
}

/// The target that replaces this member of the component. None without one, or without another full member that is up: its bytes would not be
/// copied.
pub fn choose_replacement_of(
    component: &Component,
    index: usize,
    targets: &[PlacementTarget],
    ino: InodeId,
) -> Option<OstId> {
    let stripe = component.stripe_of(index);
    let is_up = |member: usize| {
        let ost = component.targets[member];
        targets
            .iter()
            .any(|target| target.ost == ost && target.is_up)
    };
    let mut sources = component.full_members(stripe);
    sources.find(|member| *member != index && is_up(*member))?;
    let others = component.members(stripe).filter(|member| *member != index);
    let others: Vec<OstId> = others.map(|member| component.targets[member]).collect();
    choose_replacement(targets, &others, ino)
}

/// The targets of known failure domains, one of each domain, then a second one of each, and so on: a ring.
struct TargetOrder<'a> {
    ring: Vec<&'a PlacementTarget>,
}

impl<'a> TargetOrder<'a> {
    /// n log n in the number of targets.
    fn new(targets: &'a [PlacementTarget]) -> TargetOrder<'a> {
        let mut found_in: BTreeMap<u32, usize> = BTreeMap::new();
        let mut ring: Vec<((usize, u32), &PlacementTarget)> = Vec::with_capacity(targets.len());
        for target in targets {
            if target.domain != PlacementTarget::UNKNOWN_DOMAIN {
                let found = found_in.entry(target.domain).or_default();
                ring.push(((*found, target.domain), target));
                *found += 1;
            }
        }
        ring.sort_by_key(|(place, _)| *place);
        TargetOrder {
            ring: ring.into_iter().map(|(_, target)| target).collect(),
        }
    }

    /// A target in another failure domain than all of `members`, with free space if there is one: the first such one on the way round the
    /// ring, which begins `distance` targets behind the last member's successor, and never at that member itself.
    fn choose(&self, members: &[OstId], distance: usize) -> Option<&'a PlacementTarget> {
        let count = self.ring.len();
        let domain_of = |member: &OstId| {
            let found = self.ring.iter().find(|target| target.ost == *member);
            found.map(|target| target.domain)
        };
        let used: BTreeSet<u32> = members.iter().filter_map(domain_of).collect();
        let last = members.last().and_then(|last| {
            let mut ring = self.ring.iter();
            ring.position(|target| target.ost == *last)
        });
        // The distances 1 to count - 1: count itself would be the member.
        let from = last.unwrap_or(0) + 1 + distance % count.saturating_sub(1).max(1);
        let from_there = (from..from + count).map(|place| self.ring[place % count]);
        let others: Vec<&PlacementTarget> = from_there
            .filter(|target| !used.contains(&target.domain))
            .collect();
        let has_space = |target: &PlacementTarget| target.usable && target.free > 0;
        // One whose free space is not known, or that is full; one that is being drained, rather than none; and one that is down.
        let choices: [&dyn Fn(&PlacementTarget) -> bool; 4] = [
            &has_space,
            &|target| target.is_up && !target.is_draining,
            &|target| target.is_up,
            &|_| true,
        ];
        let mut choices = choices.into_iter();
        choices.find_map(|is_chosen| others.iter().copied().find(|target| is_chosen(target)))
    }
}

#[cfg(test)]
mod tests {
    use super::FILES_OF_A_DISTANCE;
    use crate::placement::choose_layout;
    use gupfs_proto::layout::{DefaultLayout, Redundancy};
    use gupfs_proto::meta::PlacementTarget;
    use gupfs_proto::{FsError, InodeId, Layout, OstId, Presence};
    use std::collections::BTreeSet;

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
    fn a_files_stripes_load_all_targets_equally_and_close_files_in_the_same_way() {
        for (domains, copies) in [(2, 2), (4, 2), (4, 3), (5, 2), (5, 4), (7, 3)] {
            let targets = targets(domains);
            let count = targets.len();
            let of = |ino: u64| {
                let mut layout = DefaultLayout::default();
                for component in &mut layout.components {
                    component.redundancy = Redundancy::Mirror(copies);
                    component.count = count as u32;
                }
                choose_layout(&layout, &targets, InodeId(ino), 1).unwrap()
            };
            let mut partners = BTreeSet::new();
            for group in 1..40 {
                let followers = |ino: u64| {
                    let layout = of(ino);
                    let component = &layout.components[0];
                    let (firsts, others) = component.targets.split_at(component.stripes());
                    let mut load = vec![0; count];
                    for ost in others {
                        load[usize::from(ost.0)] += 1;
                    }
                    assert_eq!(load, vec![copies - 1; count], "{layout:?}");
                    let mut pairs: Vec<(u16, u16)> = (firsts.iter().zip(others))
                        .map(|(first, second)| (first.0, second.0))
                        .collect();
                    pairs.sort_unstable();
                    pairs
                };
                let pairs = followers(group * FILES_OF_A_DISTANCE);
                assert_eq!(pairs, followers(group * FILES_OF_A_DISTANCE + 7));
                partners.extend(pairs);
            }
            // Each target with each one that is in another domain.
            assert_eq!(partners.len(), count * (count - 2), "{domains}");
        }
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
