//! Which objects move to which targets, so that the use of the volumes comes nearer to their mean: plain functions.
//!
//! Targets on one file system share a volume. A component of a file is copied as a whole if any of its objects moves, so what a choice costs is
//! compared with what it moves. The plan accounts what it has moved, because the space that targets report follows later.

use crate::conversion::ComponentTargets;
use crate::osts::TargetUse;
use gupfs_proto::meta::PlacementTarget;
use gupfs_proto::{Component, InodeId, Layout, OstId, Presence};
use std::collections::BTreeMap;

/// What a pass over all files moves.
#[derive(Clone, Copy, Debug)]
pub struct PassRule {
    /// The part of the copied bytes that must move, and the least bytes that are copied.
    pub least_share: f64,
    pub least_bytes: u64,
}

/// Files of which most of the copied bytes move come first, and small files last: a file costs some round trips, too.
pub const PASSES: [PassRule; 3] = [
    PassRule {
        least_share: 0.5,
        least_bytes: 1 << 20,
    },
    PassRule {
        least_share: 0.1,
        least_bytes: 1 << 20,
    },
    PassRule {
        least_share: 0.0,
        least_bytes: 1,
    },
];

#[derive(Clone, Debug)]
pub struct RebalancePlan {
    volumes: BTreeMap<u64, PlannedVolume>,
    targets: BTreeMap<OstId, PlannedTarget>,
    /// Used bytes of all volumes ÷ their size.
    mean: f64,
}

#[derive(Clone, Copy, Debug)]
struct PlannedVolume {
    total: u64,
    used: u64,
    available: u64,
}

#[derive(Clone, Copy, Debug)]
struct PlannedTarget {
    volume: u64,
    domain: u32,
    is_usable: bool,
}

impl PlannedVolume {
    fn ratio(&self) -> f64 {
        self.used as f64 / self.total.max(1) as f64
    }

    /// What the volume adds to the spread: the sum over all volumes is the smallest where the use of all is the same.
    fn weight(&self) -> f64 {
        self.used as f64 * self.ratio()
    }
}

/// A file's layout, and what its bytes occupy.
#[derive(Clone, Copy, Debug)]
pub struct PlannedFile<'a> {
    pub ino: InodeId,
    pub layout: &'a Layout,
    pub size: u64,
    /// Of 512 bytes.
    pub blocks: u64,
}

/// What moves of one file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FileMoves {
    pub components: Vec<ComponentTargets>,
    moves: Vec<VolumeMove>,
}

/// Bytes of an object that move from a volume to another.
#[derive(Clone, Copy, PartialEq, Debug)]
struct VolumeMove {
    from: u64,
    to: u64,
    bytes: u64,
}

impl FileMoves {
    pub fn bytes(&self) -> u64 {
        self.moves.iter().map(|it| it.bytes).sum()
    }
}

impl VolumeMove {
    fn account(&self, volumes: &mut BTreeMap<u64, PlannedVolume>) {
        if let Some(volume) = volumes.get_mut(&self.from) {
            volume.used = volume.used.saturating_sub(self.bytes);
        }
        if let Some(volume) = volumes.get_mut(&self.to) {
            volume.used = volume.used.saturating_add(self.bytes);
            volume.available = volume.available.saturating_sub(self.bytes);
        }
    }
}

impl RebalancePlan {
    pub fn new(uses: &[TargetUse]) -> RebalancePlan {
        let volume = |target: &TargetUse| PlannedVolume {
            total: target.total,
            used: target.used,
            available: target.available,
        };
        let volumes: BTreeMap<u64, PlannedVolume> = (uses.iter())
            .map(|target| (target.volume, volume(target)))
            .collect();
        let sum = |of: fn(&PlannedVolume) -> u64| volumes.values().map(of).sum::<u64>() as f64;
        let mean = sum(|volume| volume.used) / sum(|volume| volume.total).max(1.0);
        let planned = |target: &TargetUse| PlannedTarget {
            volume: target.volume,
            domain: target.domain,
            is_usable: target.is_usable,
        };
        RebalancePlan {
            mean,
            targets: (uses.iter())
                .map(|target| (target.ost, planned(target)))
                .collect(),
            volumes,
        }
    }

    /// Whether no volume's use differs more than so many percent points from the mean.
    pub fn is_within(&self, points: f64) -> bool {
        let mut volumes = self.volumes.values();
        volumes.all(|volume| (volume.ratio() - self.mean).abs() * 100.0 <= points)
    }

    /// Bytes that have to leave the fuller volumes until all are as full as the mean.
    pub fn bytes_left(&self) -> u64 {
        let excess = |volume: &PlannedVolume| {
            let at_mean = (volume.total as f64 * self.mean) as u64;
            volume.used.saturating_sub(at_mean)
        };
        self.volumes.values().map(excess).sum()
    }

    /// What should move of a file; None if nothing should.
    pub fn choose(&self, file: &PlannedFile<'_>, rule: PassRule) -> Option<FileMoves> {
        let mut after = self.volumes.clone();
        let mut chosen = FileMoves::default();
        let filled = file.filled();
        for (index, component) in file.layout.components.iter().enumerate() {
            let of_component = FilledComponent {
                ino: file.ino,
                component,
                size: file.size,
                filled,
            };
            if let Some((targets, moves)) = self.choose_targets(&of_component, &mut after, rule) {
                chosen.components.push(ComponentTargets {
                    index,
                    generation: component.generation,
                    targets,
                });
                chosen.moves.extend(moves);
            }
        }
        (!chosen.components.is_empty()).then_some(chosen)
    }

    /// The moves are done.
    pub fn moved(&mut self, moves: &FileMoves) {
        for one in &moves.moves {
            one.account(&mut self.volumes);
        }
    }

    /// New targets for a component's objects, and the moves. `volumes` has them afterwards; without a choice it is as before.
    fn choose_targets(
        &self,
        file: &FilledComponent<'_>,
        volumes: &mut BTreeMap<u64, PlannedVolume>,
        rule: PassRule,
    ) -> Option<(Vec<OstId>, Vec<VolumeMove>)> {
        let component = file.component;
        if !self.may_leave(file, volumes) || component.has_stale_member() {
            return None;
        }
        let (mut targets, mut moves) = (component.targets.clone(), Vec::new());
        let mut after = volumes.clone();
        for index in 0..targets.len() {
            let bytes = file.bytes(index);
            let from = self.targets.get(&targets[index]).map(|it| it.volume)?;
            if bytes == 0 || after[&from].ratio() <= self.mean {
                continue;
            }
            let Some(ost) = self.destination(file, &targets, index, (from, bytes), &after) else {
                continue;
            };
            let to = self.targets[&ost].volume;
            targets[index] = ost;
            let one = VolumeMove { from, to, bytes };
            one.account(&mut after);
            moves.push(one);
        }
        let copied: u64 = (0..targets.len()).map(|index| file.bytes(index)).sum();
        let moved: u64 = moves.iter().map(|it| it.bytes).sum();
        let pays = moved > 0
            && copied >= rule.least_bytes
            && moved as f64 >= copied as f64 * rule.least_share;
        if !pays || !self.has_room(file, &targets) {
            return None;
        }
        *volumes = after;
        Some((targets, moves))
    }

    /// Whether an object of the component is on a volume above the mean.
    fn may_leave(
        &self,
        file: &FilledComponent<'_>,
        volumes: &BTreeMap<u64, PlannedVolume>,
    ) -> bool {
        let mut targets = file.component.targets.iter();
        targets.any(|ost| {
            let volume = (self.targets.get(ost)).and_then(|it| volumes.get(&it.volume));
            volume.is_some_and(|volume| volume.ratio() > self.mean)
        })
    }

    /// The target on a volume below the mean for which the spread becomes the smallest: one that has no object of the component, in another
    /// failure domain than the other members of the stripe.
    fn destination(
        &self,
        file: &FilledComponent<'_>,
        targets: &[OstId],
        index: usize,
        (from, bytes): (u64, u64),
        volumes: &BTreeMap<u64, PlannedVolume>,
    ) -> Option<OstId> {
        let component = file.component;
        let members = component.members(component.stripe_of(index));
        let others = members.filter(|member| *member != index);
        let domains: Option<Vec<u32>> = others
            .map(|member| self.targets.get(&targets[member]).map(|it| it.domain))
            .collect();
        let domains = domains?;
        let fits = |ost: &OstId, target: &PlannedTarget| {
            let is_elsewhere = !component.is_mirrored()
                || (target.domain != PlacementTarget::UNKNOWN_DOMAIN
                    && !domains.contains(&target.domain));
            target.is_usable && target.volume != from && is_elsewhere && !targets.contains(ost)
        };
        let mut best: Option<(f64, u64)> = None;
        for (_, target) in self
            .targets
            .iter()
            .filter(|(ost, target)| fits(ost, target))
        {
            let volume = &volumes[&target.volume];
            if volume.ratio() >= self.mean {
                continue;
            }
            let gain = spread_gain(&volumes[&from], volume, bytes);
            if gain > 0.0 && best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, target.volume));
            }
        }
        let (_, volume) = best?;
        let there = (self.targets.iter())
            .filter(|(ost, target)| target.volume == volume && fits(ost, target));
        let there: Vec<OstId> = there.map(|(ost, _)| *ost).collect();
        let turn = (file.ino.counter() as usize).wrapping_add(index);
        Some(there[turn % there.len()])
    }

    /// Whether the volumes have space for a copy of the component beside the original, with as much left.
    fn has_room(&self, file: &FilledComponent<'_>, targets: &[OstId]) -> bool {
        let mut needed: BTreeMap<u64, u64> = BTreeMap::new();
        for (index, ost) in targets.iter().enumerate() {
            let Some(target) = self.targets.get(ost) else {
                return false;
            };
            *needed.entry(target.volume).or_default() += file.bytes(index);
        }
        let has_room = |(volume, bytes): (&u64, &u64)| {
            *bytes == 0 || bytes.saturating_mul(2) <= self.volumes[volume].available
        };
        needed.iter().all(has_room)
    }
}

/// By how much the spread becomes smaller if bytes move; below 0 if it becomes larger.
fn spread_gain(from: &PlannedVolume, to: &PlannedVolume, bytes: u64) -> f64 {
    let with = |volume: &PlannedVolume, used: u64| PlannedVolume { used, ..*volume }.weight();
    let before = from.weight() + to.weight();
    before - with(from, from.used.saturating_sub(bytes)) - with(to, to.used + bytes)
}

/// One component, and how far its bytes are filled.
struct FilledComponent<'a> {
    ino: InodeId,
    component: &'a Component,
    size: u64,
    filled: f64,
}

impl FilledComponent<'_> {
    /// What an object occupies, about.
    fn bytes(&self, index: usize) -> u64 {
        match self.component.presence.get(index) {
            Presence::Never | Presence::Stale => 0,
            Presence::Maybe | Presence::Present => {
                (self.component.object_size(index, self.size) as f64 * self.filled) as u64
            }
        }
    }
}

impl PlannedFile<'_> {
    /// The part of the file that is no hole.
    fn filled(&self) -> f64 {
        let stripes = self.layout.components.iter().flat_map(|component| {
            (0..component.stripes()).map(|stripe| component.object_size(stripe, self.size))
        });
        let size: u64 = stripes.sum();
        let occupied = self.blocks.saturating_mul(512);
        (occupied as f64 / size.max(1) as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests;
