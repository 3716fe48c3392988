//! The capability keys of the metadata server's epochs, and its clock: the metadata server sends both every second, and this
//! server's clock extrapolates.

use gupfs_platform::BootTime;
use gupfs_proto::capability::{CapabilityKey, CapabilityMac, CapabilityStatement};
use gupfs_proto::cluster::{CapabilityKeys, KeyShare};
use gupfs_proto::limits::SESSION_CAPABILITY_TERM;
use gupfs_proto::{OstId, OwnerEpoch};
use gupfs_rpc::ClusterKey;
use std::collections::BTreeMap;
use std::time::Duration;

/// Number of epochs whose keys are kept: enough for a metadata server that restarts repeatedly within one term.
const EPOCHS_MAX: usize = 4;

#[derive(Default)]
pub struct EpochKeys {
    cluster: Option<ClusterKey>,
    epochs: BTreeMap<OwnerEpoch, KeysOfEpoch>,
}

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

    /// Takes keys from a reply of the metadata server to a request sent at `requested_at`. Returns the oldest valid epoch.
    pub fn update(
        &mut self,
        capability_keys: &CapabilityKeys,
        requested_at: BootTime,
    ) -> OwnerEpoch {
        let cluster = self.cluster.as_ref();
        let newest = self.epochs.keys().next_back().copied();
        // A late reply of a former owner changes nothing.
        if newest.is_none_or(|newest| capability_keys.epoch >= newest) {
            let epoch = self
                .epochs
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
        self.drop_old_epochs(requested_at)
    }

    /// Drops former owners' epochs when all their session capabilities have expired.
    fn drop_old_epochs(&mut self, now: BootTime) -> OwnerEpoch {
        let newest = self.newest();
        for (number, epoch) in &mut self.epochs {
            if *number < newest {
                epoch.superseded_at.get_or_insert(now);
            }
        }
        self.epochs.retain(|_, epoch| {
            epoch
                .superseded_at
                .is_none_or(|since| now.since(since) <= SESSION_CAPABILITY_TERM)
        });
        while self.epochs.len() > EPOCHS_MAX {
            self.epochs.pop_first();
        }
        self.epochs.keys().next().copied().unwrap_or_default()
    }

    /// The newest epoch; 0 before any arrived.
    pub fn newest(&self) -> OwnerEpoch {
        self.epochs.keys().next_back().copied().unwrap_or_default()
    }

    /// Whether this MAC was made with the OST's key of a valid epoch; None for other epochs.
    pub fn verify_for_ost(
        &self,
        ost: OstId,
        epoch: OwnerEpoch,
        statement: &CapabilityStatement,
        mac: &CapabilityMac,
    ) -> Option<bool> {
        let epoch = self.epochs.get(&epoch)?;
        Some(epoch.ost_keys.get(&ost)?.verifies(statement, mac))
    }

    pub fn verify_session(
        &self,
        epoch: OwnerEpoch,
        statement: &CapabilityStatement,
        mac: &CapabilityMac,
    ) -> Option<bool> {
        Some(
            self.epochs
                .get(&epoch)?
                .session_key
                .verifies(statement, mac),
        )
    }

    /// The expiry, by this server's clock, of a capability that expires at `until` by the clock of that epoch's owner. Allows for
    /// a local clock that is 1 % slower.
    pub fn local_expiry(&self, epoch: OwnerEpoch, until: u64) -> Option<BootTime> {
        let epoch = self.epochs.get(&epoch)?;
        let left = Duration::from_millis(until.saturating_sub(epoch.owner_time));
        Some(epoch.requested_at + left * 100 / 101)
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
        assert_eq!(
            keys.update(&capability_keys(3, 50_000), at(100)),
            OwnerEpoch(3)
        );
        assert_eq!(keys.update(&capability_keys(4, 10), at(110)), OwnerEpoch(3));
        assert_eq!(keys.newest(), OwnerEpoch(4));
        // Late replies of the former owner change nothing.
        keys.update(&capability_keys(3, 60_000), at(120));
        assert_eq!(
            keys.update(&capability_keys(4, 10_010), at(120)),
            OwnerEpoch(3)
        );
        assert_eq!(
            keys.update(&capability_keys(4, 30_010), at(140)),
            OwnerEpoch(4)
        );
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
