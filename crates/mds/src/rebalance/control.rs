//! The record of the rebalance: what an administrator wants, and how it ended.

use crate::limits::{REBALANCE_WHY_MAX, REBALANCE_WITHIN};
use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::pending_work::RebalanceProgress;
use crate::shard_driver::ShardDriver;
use crate::store::{MetadataStore, damaged_record};
use gupfs_namespace::{Rebalance, Record, RecordKey};
use gupfs_platform::Clock;
use gupfs_proto::cluster::{ClusterReply, ClusterReplyBody};
use gupfs_proto::rebalance::{RebalanceChange, RebalanceOutcome, RebalanceState};
use gupfs_proto::{FsError, Timestamp};
use std::sync::Arc;

pub struct RebalanceControl {
    pub store: Arc<MetadataStore>,
    pub driver: Arc<ShardDriver>,
    pub targets: Arc<Targets>,
    pub progress: Arc<RebalanceProgress>,
    pub clock: Clock,
}

impl RebalanceControl {
    /// Begins, changes or ends the rebalance, durably; returns how far it is.
    ///
    /// # Errors
    /// Of the store.
    pub async fn manage(&self, change: RebalanceChange) -> ClusterReply {
        self.load().await?;
        let now = self.clock.now();
        if self.record(|known| changed(known, change, now))? {
            tracing::info!(?change, "rebalance");
            self.progress.wake();
        }
        if change != RebalanceChange::Ask {
            // Also of an earlier request: its requester may not have received the reply.
            self.durable().await?;
        }
        Ok(ClusterReplyBody::Rebalancing(self.state()))
    }

    pub fn state(&self) -> RebalanceState {
        RebalanceState {
            volumes: self.targets.volume_uses(),
            ..self.progress.state()
        }
    }

    /// Reads the record, if it was not read since the start.
    ///
    /// # Errors
    /// Of the store; `StoreFailed` for a record that cannot be read.
    pub async fn load(&self) -> Result<(), FsError> {
        if self.progress.is_loaded() {
            return Ok(());
        }
        let key = RecordKey::rebalance();
        let found = self.store.get_now(&key).await?;
        let record = found.map(|value| Rebalance::decode(&value)).transpose();
        let record = record.map_err(|error| damaged_record(&key, error))?;
        self.progress.load(record);
        Ok(())
    }

    /// The rebalance that began then has ended; not if it was cancelled meanwhile.
    ///
    /// # Errors
    /// Of the store.
    pub async fn end(
        &self,
        since: Timestamp,
        mut outcome: RebalanceOutcome,
    ) -> Result<(), FsError> {
        outcome.why = (outcome.why).map(|why| why.chars().take(REBALANCE_WHY_MAX).collect());
        tracing::info!(?outcome, "the rebalance has ended");
        let ended = |known: Option<Rebalance>| match known {
            Some(known) if known.since == since && known.outcome.is_none() => Some(Rebalance {
                outcome: Some(outcome),
                ..known
            }),
            known => known,
        };
        self.record(ended)?;
        self.durable().await
    }

    /// Returns whether the record has changed.
    fn record(
        &self,
        change: impl FnOnce(Option<Rebalance>) -> Option<Rebalance>,
    ) -> Result<bool, FsError> {
        self.progress.change(change, |record| {
            let value = record.map(Record::encode);
            let batch = vec![(RecordKey::rebalance(), value)];
            self.driver.stage_server_records(batch).map(|_| ())
        })
    }

    async fn durable(&self) -> Result<(), FsError> {
        let origin = RequestOrigin::server("record a rebalance");
        self.store.durable(origin, self.store.last_seq()).await
    }
}

/// The record after a change.
fn changed(known: Option<Rebalance>, change: RebalanceChange, now: Timestamp) -> Option<Rebalance> {
    let going_on = known.as_ref().filter(|known| known.outcome.is_none());
    match (change, going_on.cloned()) {
        (RebalanceChange::Start { rate, within }, going_on) => {
            let mut record = going_on.unwrap_or(Rebalance {
                since: now,
                rate: None,
                within: REBALANCE_WITHIN,
                is_paused: false,
                outcome: None,
            });
            if let Some(rate) = rate {
                record.rate = Some(rate).filter(|rate| *rate > 0);
            }
            record.within = within.unwrap_or(record.within);
            Some(record)
        }
        (RebalanceChange::Pause | RebalanceChange::Resume, Some(going_on)) => Some(Rebalance {
            is_paused: change == RebalanceChange::Pause,
            ..going_on
        }),
        (RebalanceChange::Cancel, Some(_)) => None,
        _ => known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::new(second, 0)
    }

    #[test]
    fn a_rebalance_begins_pauses_goes_on_and_is_cancelled() {
        let start = |rate, within| RebalanceChange::Start { rate, within };
        let begun = changed(None, start(None, None), at(1)).unwrap();
        assert_eq!((begun.since, begun.within), (at(1), REBALANCE_WITHIN));
        // The same one, with other settings.
        let faster = changed(Some(begun), start(Some(9), Some(1)), at(2)).unwrap();
        assert_eq!(
            (faster.since, faster.rate, faster.within),
            (at(1), Some(9), 1)
        );
        let paused = changed(Some(faster.clone()), RebalanceChange::Pause, at(3));
        assert!(paused.as_ref().is_some_and(|paused| paused.is_paused));
        let resumed = changed(paused, RebalanceChange::Resume, at(3));
        assert_eq!(resumed, Some(faster.clone()));
        let unlimited = changed(resumed, start(Some(0), None), at(3)).unwrap();
        assert_eq!(unlimited.rate, None);
        assert_eq!(changed(Some(faster), RebalanceChange::Cancel, at(4)), None);
        assert_eq!(changed(None, RebalanceChange::Pause, at(4)), None);
    }

    #[test]
    fn one_that_has_ended_is_kept_until_the_next_begins() {
        let outcome = RebalanceOutcome {
            at: at(5),
            is_even: true,
            why: None,
        };
        let ended = Rebalance {
            since: at(1),
            rate: Some(4),
            within: 1,
            is_paused: false,
            outcome: Some(outcome),
        };
        for change in [
            RebalanceChange::Ask,
            RebalanceChange::Cancel,
            RebalanceChange::Pause,
        ] {
            assert_eq!(
                changed(Some(ended.clone()), change, at(6)),
                Some(ended.clone())
            );
        }
        let (rate, within) = (None, None);
        let next = changed(Some(ended), RebalanceChange::Start { rate, within }, at(7)).unwrap();
        assert_eq!((next.since, next.rate, next.outcome), (at(7), None, None));
    }
}
