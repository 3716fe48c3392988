//! Remote targets: their servers report every second that they are up, and at which address.

mod report;
mod stop;

pub(crate) use report::{ReportOutcome, ReportingServer};

use super::Targets;
use super::entry::{TargetCondition, TargetEntry, UnknownSpace};
use crate::limits::TARGET_REPORT_TIMEOUT;
use gupfs_namespace::{DrainSettings, KnownTarget};
use gupfs_proto::capability::Capability;
use gupfs_proto::cluster::{ClusterMap, TargetAddress};
use gupfs_proto::{FsError, Incarnation, MapEpoch, OstId, OwnerEpoch};
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

impl Targets {
    /// Map epochs of an owner are above those of its predecessors. The owner of one shard group makes the map.
    pub fn begin_epochs(&self, owner: OwnerEpoch) {
        if self.dial.is_some() {
            self.epoch.store((owner.counter() << 20) + 1, Release);
        }
    }

    pub fn epoch(&self) -> MapEpoch {
        MapEpoch(self.epoch.load(Acquire))
    }

    /// Marks targets whose servers have not reported for a while as expected; new files go elsewhere.
    pub fn expire_silent(&self) {
        let now = self.clock.boot();
        let mut has_expired = false;
        for (ost, entry) in self.list.lock().iter_mut() {
            if let Some(remote) = &entry.remote
                && entry.condition.is_up()
                && now.since(remote.last_heard) >= TARGET_REPORT_TIMEOUT
            {
                tracing::warn!(%ost, address = remote.address, "the target's server is silent; requests for the target wait");
                let why = format!("its server at {} is silent", remote.address);
                entry.condition = TargetCondition::Expected(why);
                has_expired = true;
            }
            entry.down_since = match entry.condition.is_up() {
                true => None,
                false => entry.down_since.or(Some(now)),
            };
        }
        if has_expired {
            self.changed.notify_waiters();
        }
    }

    /// Whether a target has been down for so long.
    pub fn is_down_for(&self, ost: OstId, time: Duration) -> bool {
        let now = self.clock.boot();
        let list = self.list.lock();
        let down_since = list.get(&ost).and_then(|entry| entry.down_since);
        down_since.is_some_and(|since| now.since(since) >= time)
    }

    pub fn map(&self) -> ClusterMap {
        let list = self.list.lock();
        ClusterMap {
            epoch: self.epoch(),
            targets: list
                .iter()
                .filter(|(_, entry)| !entry.condition.is_lost())
                .map(|(ost, entry)| TargetAddress {
                    ost: *ost,
                    address: match (&entry.remote, &entry.peer) {
                        (Some(remote), _) => Some(remote.address.clone()),
                        (None, Some(_)) => Some(String::new()),
                        (None, None) => None,
                    },
                })
                .collect(),
        }
    }

    /// A number for a target that is about to be initialised, the same number for the same incarnation. The caller commits the
    /// returned record before it replies.
    ///
    /// # Errors
    /// `NotSupported` if this server uses local targets only, `NoSpace` when all numbers are in use.
    pub fn admit(&self, incarnation: Incarnation) -> Result<(OstId, Option<KnownTarget>), FsError> {
        if self.dial.is_none() {
            return Err(FsError::NotSupported);
        }
        let mut list = self.list.lock();
        let known =
            |entry: &TargetEntry| entry.recorded.is_some_and(|r| r.incarnation == incarnation);
        if let Some((ost, _)) = list.iter().find(|(_, entry)| known(entry)) {
            return Ok((*ost, None));
        }
        let next = list
            .keys()
            .next_back()
            .map_or(0, |last| u32::from(last.0) + 1);
        let ost = OstId(u16::try_from(next).map_err(|_| FsError::NoSpace)?);
        if ost == Capability::MDS_PSEUDO_OST {
            return Err(FsError::NoSpace);
        }
        let recorded = KnownTarget {
            incarnation,
            stamp: 0,
            run: 0,
            adopting: 0,
            owner: OwnerEpoch(0),
            owner_run: 0,
            lost_since: None,
            draining_since: None,
            is_removed: false,
            domain: None,
            accepted: None,
            drain: DrainSettings::default(),
        };
        list.insert(
            ost,
            TargetEntry {
                peer: None,
                remote: None,
                recorded: Some(recorded),
                is_durable: false,
                serving: None,
                condition: TargetCondition::Expected("its server has not reported yet".into()),
                older_copy: None,
                down_since: None,
                space: Err(UnknownSpace::not_reported()),
            },
        );
        Ok((ost, Some(recorded)))
    }
}

#[cfg(test)]
mod tests;
