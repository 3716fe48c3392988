//! The capability keys of the owners of each shard group, and their clocks: an owner sends both every second, and this server's clock
//! extrapolates.

use gupfs_platform::BootTime;
use gupfs_proto::capability::{CapabilityKey, CapabilityMac, CapabilityStatement};
use gupfs_proto::cluster::{CapabilityKeys, KeyShare};
use gupfs_proto::limits::SESSION_CAPABILITY_TERM;
use gupfs_proto::{OstId, OwnerEpoch, ShardGroup};
use gupfs_rpc::ClusterKey;
use std::collections::BTreeMap;
use std::time::Duration;

/// Number of epochs of a group whose keys are kept: enough for a metadata server that restarts repeatedly within one term.
const EPOCHS_MAX: usize = 4;

#[derive(Default)]
pub struct EpochKeys {
    cluster: Option<ClusterKey>,
    groups: BTreeMap<ShardGroup, KeysOfGroup>,
}

/// By epoch.
type KeysOfGroup = BTreeMap<OwnerEpoch, KeysOfEpoch>;

struct KeysOfEpoch {
    /// The key shares as received, to detect unchanged ones.
    shares: BTreeMap<OstId, KeyShare>,
    ost_keys: BTreeMap<OstId, CapabilityKey>,
    session_key: CapabilityKey,
    /// The owner's clock showed `owner_time` at our time `requested_at` or later, so the extrapolated owner time is never too
    /// early.
    owner_time: u64,
    requested_at: BootTime,
    /// When a newer epoch arrived.
    superseded_at: Option<BootTime>,
}

impl EpochKeys {
    pub fn set_cluster_key(&mut self, cluster: Option<ClusterKey>) {
        self.cluster = cluster;
    }

    /// Takes keys from an owner's reply to a request sent at `requested_at`. False: these are the keys of a former owner, and nothing
    /// was taken.
    pub fn update(&mut self, capability_keys: &CapabilityKeys, requested_at: BootTime) -> bool {
        let cluster = self.cluster.as_ref();
        let group = capability_keys.epoch.group();
        let is_current = capability_keys.epoch.may_follow(self.newest(group));
        if is_current {
            let epochs = self.groups.entry(group).or_default();
            let epoch = epochs
                .entry(capability_keys.epoch)
                .or_insert_with(|| KeysOfEpoch {
                    shares: BTreeMap::new(),
                    ost_keys: BTreeMap::new(),
                    session_key: ClusterKey::capability_key(cluster, &capability_keys.session_key),
                    owner_time: capability_keys.now,
                    requested_at,
                    superseded_at: None,
                });
            (epoch.owner_time, epoch.requested_at) = (capability_keys.now, requested_at);
            for (ost, share) in &capability_keys.ost_keys {
                if epoch.shares.insert(*ost, *share) != Some(*share) {
                    let key = ClusterKey::capability_key(cluster, share);
                    epoch.ost_keys.insert(*ost, key);
                }
            }
        }
        for epochs in self.groups.values_mut() {
            drop_old_epochs(epochs, requested_at);
        }
        is_current
    }

    /// The newest epoch of a group; 0 before any arrived.
    pub fn newest(&self, group: ShardGroup) -> OwnerEpoch {
        let newest = (self.groups.get(&group)).and_then(|epochs| epochs.keys().next_back());
        newest.copied().unwrap_or_default()
    }

    /// Whether capabilities of this epoch are valid. None is before its keys have arrived.
    pub fn is_valid(&self, epoch: OwnerEpoch) -> bool {
        self.epoch(epoch).is_some()
    }

    fn epoch(&self, epoch: OwnerEpoch) -> Option<&KeysOfEpoch> {
        self.groups.get(&epoch.group())?.get(&epoch)
    }

    /// Whether this MAC was made with the OST's key of a valid epoch; None for other epochs.
    pub fn verify_for_ost(
        &self,
        ost: OstId,
        epoch: OwnerEpoch,
        statement: &CapabilityStatement,
        mac: &CapabilityMac,
    ) -> Option<bool> {
        let key = self.epoch(epoch)?.ost_keys.get(&ost)?;
        Some(key.verifies(statement, mac))
    }

    pub fn verify_session(
        &self,
        epoch: OwnerEpoch,
        statement: &CapabilityStatement,
        mac: &CapabilityMac,
    ) -> Option<bool> {
        Some(self.epoch(epoch)?.session_key.verifies(statement, mac))
    }

    /// The expiry, by this server's clock, of a capability that expires at `until` by the clock of that epoch's owner. Allows for
    /// a local clock that is 1 % slower.
    pub fn local_expiry(&self, epoch: OwnerEpoch, until: u64) -> Option<BootTime> {
        let epoch = self.epoch(epoch)?;
        let left = Duration::from_millis(until.saturating_sub(epoch.owner_time));
        Some(epoch.requested_at + left * 100 / 101)
    }
}

/// Drops the epochs of a group's former owners when all their session capabilities have expired.
fn drop_old_epochs(epochs: &mut KeysOfGroup, now: BootTime) {
    let newest = epochs.keys().next_back().copied().unwrap_or_default();
    for (number, epoch) in epochs.iter_mut() {
        if *number < newest {
            epoch.superseded_at.get_or_insert(now);
        }
    }
    epochs.retain(|_, epoch| {
        epoch
            .superseded_at
            .is_none_or(|since| now.since(since) <= SESSION_CAPABILITY_TERM)
    });
    while epochs.len() > EPOCHS_MAX {
        epochs.pop_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capability_keys(epoch: u64, now: u64) -> CapabilityKeys {
        CapabilityKeys {
            epoch: OwnerEpoch(epoch),
            now,
            session_key: KeyShare([epoch as u8; 32]),
            ost_keys: vec![(OstId(1), KeyShare([9; 32]))],
            ended_sessions: Vec::new(),
        }
    }

    fn at(secs: u64) -> BootTime {
        BootTime::default() + Duration::from_secs(secs)
    }

    #[test]
    fn a_former_epoch_is_valid_until_its_last_session_capability_expires() {
        let mut keys = EpochKeys::default();
        let valid = |keys: &EpochKeys| [3, 4].map(|epoch| keys.is_valid(OwnerEpoch(epoch)));
        assert!(keys.update(&capability_keys(3, 50_000), at(100)));
        assert_eq!(valid(&keys), [true, false]);
        assert!(keys.update(&capability_keys(4, 10), at(110)));
        assert_eq!(valid(&keys), [true, true]);
        assert_eq!(keys.newest(ShardGroup::FIRST), OwnerEpoch(4));
        // Late replies of the former owner change nothing.
        assert!(!keys.update(&capability_keys(3, 60_000), at(120)));
        keys.update(&capability_keys(4, 10_010), at(120));
        assert_eq!(valid(&keys), [true, true]);
        keys.update(&capability_keys(4, 30_010), at(140));
        assert_eq!(valid(&keys), [false, true]);
    }

    #[test]
    fn owners_of_other_groups_leave_the_keys_of_a_group() {
        let mut keys = EpochKeys::default();
        let other = ShardGroup(1);
        let of_other = |counter: u64, now| CapabilityKeys {
            epoch: OwnerEpoch::new(other, counter),
            ..capability_keys(counter, now)
        };
        keys.update(&capability_keys(3, 50_000), at(100));
        // More owners than a group keeps, and a term after the first.
        for counter in 1..=9 {
            assert!(keys.update(&of_other(counter, 10), at(100 + counter)));
        }
        assert!(keys.update(&of_other(9, 10), at(200)));
        assert!(keys.is_valid(OwnerEpoch(3)) && keys.is_valid(OwnerEpoch::new(other, 9)));
        assert!(!keys.is_valid(OwnerEpoch::new(other, 8)));
        assert_eq!(keys.newest(ShardGroup::FIRST), OwnerEpoch(3));
        // Each owner's time is its own.
        let until = |epoch| keys.local_expiry(epoch, 60_100).unwrap();
        assert_eq!(until(OwnerEpoch(3)), at(110));
        assert!(until(OwnerEpoch::new(other, 9)) > at(250));
    }

    #[test]
    fn the_extrapolated_owner_time_is_never_too_early() {
        let mut keys = EpochKeys::default();
        keys.update(&capability_keys(3, 50_000), at(100));
        let until = keys.local_expiry(OwnerEpoch(3), 50_000 + 10_100).unwrap();
        assert_eq!(until, at(110));
        assert_eq!(keys.local_expiry(OwnerEpoch(3), 40_000), Some(at(100)));
        assert_eq!(keys.local_expiry(OwnerEpoch(2), 40_000), None);
    }
}
