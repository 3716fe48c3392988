//! The targets as a rebalance sees them.

use super::Targets;
use gupfs_proto::OstId;
use gupfs_proto::rebalance::VolumeUse;
use std::collections::BTreeMap;

/// A target that takes part in a rebalance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetUse {
    pub ost: OstId,
    /// As in `PlacementTarget`.
    pub domain: u32,
    /// As in `TargetCapacity`; all targets of a volume have the same numbers.
    pub volume: u64,
    pub total: u64,
    pub used: u64,
    pub available: u64,
    /// New files are laid out there.
    pub is_usable: bool,
}

impl Targets {
    /// The targets that are up, and neither drained nor lost; and those that are not up, but also neither drained nor lost.
    pub fn uses(&self) -> (Vec<TargetUse>, Vec<OstId>) {
        let placement = self.placement();
        let list = self.list.lock();
        let (mut uses, mut absent) = (Vec::new(), Vec::new());
        for target in placement.iter().filter(|target| !target.is_draining) {
            let space = list
                .get(&target.ost)
                .and_then(|entry| entry.space.as_ref().ok());
            match space {
                Some(space) if target.is_up && space.total > 0 => uses.push(TargetUse {
                    ost: target.ost,
                    domain: target.domain,
                    volume: space.volume,
                    total: space.total,
                    used: space.total.saturating_sub(space.free),
                    available: space.available,
                    is_usable: target.usable,
                }),
                _ => absent.push(target.ost),
            }
        }
        (uses, absent)
    }

    /// The use of each volume whose targets are up.
    pub fn volume_uses(&self) -> Vec<VolumeUse> {
        let mut volumes: BTreeMap<u64, VolumeUse> = BTreeMap::new();
        for target in self.uses().0 {
            let volume = volumes.entry(target.volume).or_insert(VolumeUse {
                osts: Vec::new(),
                total: target.total,
                used: target.used,
            });
            volume.osts.push(target.ost);
        }
        volumes.into_values().collect()
    }
}
