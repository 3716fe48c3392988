//! The targets as `status` shows them, and as placement sees them.

use super::entry::TargetCondition;
use super::{Targets, domains};
use domains::TargetSite;
use gupfs_proto::meta::PlacementTarget;
use gupfs_proto::{DomainName, Incarnation, OstId, Timestamp};
use serde::Serialize;
use std::sync::Arc;

/// A target as `status` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MdsTargetStatus {
    pub ost: OstId,
    /// New files are laid out on it.
    pub usable: bool,
    /// Its server serves it.
    pub is_up: bool,
    /// Its identity does not match the recorded one, and it waits for an operator.
    pub refused: bool,
    /// When an administrator declared it lost, or removed it.
    pub lost_since: Option<Timestamp>,
    /// Since when its objects move to other targets.
    pub draining_since: Option<Timestamp>,
    /// Bytes that its drain may copy a second; and the drain is paused.
    pub drain_rate: Option<u64>,
    pub drain_is_paused: bool,
    /// It was drained and removed.
    pub is_removed: bool,
    /// The failure domain that its server has named.
    pub domain: Option<DomainName>,
    pub why_not: Option<String>,
    /// The address of its server; None for a local target, and before its server reported.
    pub address: Option<String>,
    pub incarnation: Option<Incarnation>,
    /// The stamp that it reported last.
    pub stamp: Option<u64>,
    pub total: u64,
    pub available: u64,
    pub objects: u64,
}

impl Targets {
    /// Targets whose identity does not match the recorded one, and lost ones, with the reason: their bytes must not be used.
    pub fn refused(&self) -> Vec<(OstId, String)> {
        self.list
            .lock()
            .iter()
            .filter_map(|(ost, entry)| match &entry.condition {
                TargetCondition::Refused(why) | TargetCondition::Lost(why) => {
                    Some((*ost, why.clone()))
                }
                _ => None,
            })
            .collect()
    }

    /// The targets among which placement chooses, in ascending order: all that are not lost. `free` is the space that writers may still use.
    pub fn placement(&self) -> Arc<[PlacementTarget]> {
        let mut status = self.status();
        status.retain(|target| target.lost_since.is_none());
        let domains = {
            let list = self.list.lock();
            let kept = list.values().filter(|entry| !entry.condition.is_lost());
            let sites: Vec<TargetSite> = kept.map(TargetSite::of).collect();
            domains::number_domains(&sites)
        };
        (status.into_iter().zip(domains))
            .map(|(target, domain)| PlacementTarget {
                ost: target.ost,
                domain,
                is_up: target.is_up,
                usable: target.usable,
                is_draining: target.draining_since.is_some(),
                why_not: target.why_not,
                total: target.total,
                free: target.available,
            })
            .collect()
    }

    pub fn status(&self) -> Vec<MdsTargetStatus> {
        self.list
            .lock()
            .iter()
            .map(|(ost, entry)| {
                let why_not = entry.why_not();
                let space = entry.space.as_ref().copied().unwrap_or_default();
                MdsTargetStatus {
                    ost: *ost,
                    usable: why_not.is_none(),
                    is_up: entry.condition.is_up(),
                    refused: matches!(entry.condition, TargetCondition::Refused(_)),
                    lost_since: entry.recorded.and_then(|known| known.lost_since),
                    draining_since: entry.recorded.and_then(|known| known.draining_since),
                    drain_rate: entry.recorded.and_then(|known| known.drain.rate),
                    drain_is_paused: entry.recorded.is_some_and(|known| known.drain.is_paused),
                    is_removed: entry.recorded.is_some_and(|known| known.is_removed),
                    domain: entry.recorded.and_then(|known| known.domain),
                    why_not,
                    address: entry.remote.as_ref().map(|remote| remote.address.clone()),
                    incarnation: entry.recorded.map(|r| r.incarnation),
                    stamp: entry.recorded.map(|r| r.stamp),
                    total: space.total,
                    available: space.available,
                    objects: space.objects,
                }
            })
            .collect()
    }
}
