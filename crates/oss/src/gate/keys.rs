//! Keys of the metadata server's epochs, and what its clock says: told every second, and reckoned on by our own.

use gupfs_platform::BootTime;
use gupfs_proto::capability::{SealKey, Statement, Tag};
use gupfs_proto::cluster::{Seals, Share};
use gupfs_proto::limits::PASS_TERM;
use gupfs_proto::{OstId, OwnerEpoch};
use gupfs_rpc::ClusterKey;
use std::collections::BTreeMap;
use std::time::Duration;

/// Epochs whose keys are kept: those of a metadata server that starts again and again within a term.
const EPOCHS_MAX: usize = 4;

#[derive(Default)]
pub struct Keys {
    cluster: Option<ClusterKey>,
    epochs: BTreeMap<OwnerEpoch, Epoch>,
}

struct Epoch {
    /// The shares as they were told, so that a repetition is known.
    shares: BTreeMap<OstId, Share>,
    osts: BTreeMap<OstId, SealKey>,
    pass: SealKey,
    /// The owner's clock said `then` at our `asked` or later: it is never later than we reckon.
    then: u64,
    asked: BootTime,
    /// Since when there is a newer one.
    succeeded: Option<BootTime>,
}

impl Keys {
    pub fn belongs_to(&mut self, cluster: Option<ClusterKey>) {
        self.cluster = cluster;
    }

    /// What the metadata server has told in answer to a question of `asked`. Returns the oldest epoch that is believed.
    pub fn hear(&mut self, seals: &Seals, asked: BootTime) -> OwnerEpoch {
        let cluster = self.cluster.as_ref();
        let newest = self.epochs.keys().next_back().copied();
        // A former owner's word that comes late renews nothing.
        if newest.is_none_or(|newest| seals.epoch >= newest) {
            let epoch = self.epochs.entry(seals.epoch).or_insert_with(|| Epoch {
                shares: BTreeMap::new(),
                osts: BTreeMap::new(),
                pass: ClusterKey::sealing(cluster, &seals.pass),
                then: seals.now,
                asked,
                succeeded: None,
            });
            (epoch.then, epoch.asked) = (seals.now, asked);
            for (ost, share) in &seals.osts {
                if epoch.shares.insert(*ost, *share) != Some(*share) {
                    let key = ClusterKey::sealing(cluster, share);
                    epoch.osts.insert(*ost, key);
                }
            }
        }
        self.forget(asked)
    }

    /// Former owners' epochs go when no pass of them can count any more.
    fn forget(&mut self, now: BootTime) -> OwnerEpoch {
        let newest = self.newest();
        for (number, epoch) in &mut self.epochs {
            if *number < newest {
                epoch.succeeded.get_or_insert(now);
            }
        }
        self.epochs.retain(|_, epoch| {
            epoch
                .succeeded
                .is_none_or(|since| now.since(since) <= PASS_TERM)
        });
        while self.epochs.len() > EPOCHS_MAX {
            self.epochs.pop_first();
        }
        self.epochs.keys().next().copied().unwrap_or_default()
    }

    /// The epoch of the owner that was heard last; 0 before.
    pub fn newest(&self) -> OwnerEpoch {
        self.epochs.keys().next_back().copied().unwrap_or_default()
    }

    /// Whether a tag was made with the key of an epoch that is believed; None for other epochs.
    pub fn verify_at(
        &self,
        ost: OstId,
        epoch: OwnerEpoch,
        what: &Statement,
        tag: &Tag,
    ) -> Option<bool> {
        let epoch = self.epochs.get(&epoch)?;
        Some(epoch.osts.get(&ost)?.verifies(what, tag))
    }

    pub fn verify_pass(&self, epoch: OwnerEpoch, what: &Statement, tag: &Tag) -> Option<bool> {
        Some(self.epochs.get(&epoch)?.pass.verifies(what, tag))
    }

    /// Until when, by our clock, something counts that ends at `until` by the clock of that epoch's owner. Our clock may be
    /// slower by one in a hundred.
    pub fn counts_until(&self, epoch: OwnerEpoch, until: u64) -> Option<BootTime> {
        let epoch = self.epochs.get(&epoch)?;
        let left = Duration::from_millis(until.saturating_sub(epoch.then));
        Some(epoch.asked + left * 100 / 101)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seals(epoch: u64, now: u64) -> Seals {
        Seals {
            epoch: OwnerEpoch(epoch),
            now,
            pass: Share([epoch as u8; 32]),
            osts: vec![(OstId(1), Share([9; 32]))],
            ended: Vec::new(),
        }
    }

    fn at(secs: u64) -> BootTime {
        BootTime::default() + Duration::from_secs(secs)
    }

    #[test]
    fn a_former_epoch_counts_until_its_last_pass_is_over() {
        let mut keys = Keys::default();
        assert_eq!(keys.hear(&seals(3, 50_000), at(100)), OwnerEpoch(3));
        assert_eq!(keys.hear(&seals(4, 10), at(110)), OwnerEpoch(3));
        assert_eq!(keys.newest(), OwnerEpoch(4));
        // Late words of the former owner change nothing.
        keys.hear(&seals(3, 60_000), at(120));
        assert_eq!(keys.hear(&seals(4, 10_010), at(120)), OwnerEpoch(3));
        assert_eq!(keys.hear(&seals(4, 30_010), at(140)), OwnerEpoch(4));
    }

    #[test]
    fn the_owners_clock_is_never_believed_to_be_earlier_than_it_is() {
        let mut keys = Keys::default();
        keys.hear(&seals(3, 50_000), at(100));
        let until = keys.counts_until(OwnerEpoch(3), 50_000 + 10_100).unwrap();
        assert_eq!(until, at(110));
        assert_eq!(keys.counts_until(OwnerEpoch(3), 40_000), Some(at(100)));
        assert_eq!(keys.counts_until(OwnerEpoch(2), 40_000), None);
    }
}
