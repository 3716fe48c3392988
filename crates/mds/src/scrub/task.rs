//! The scrub task: verifies all objects once in a period, and at once if an administrator asks for it.
//!
//! Each virtual shard has its part of the period, by the clock: nothing is recorded, and a server that was restarted goes on with the shard
//! whose turn it is, from its first inode. (A shard whose part passes while no server runs is verified in the next period.)

use super::file::FileScrubber;
use super::pacer::Pacer;
use crate::limits::{INODE_WALK_PAUSE, SCAN_STEP, SCRUB_RATE_MIN, SCRUB_TURN_EVERY};
use crate::pending_work::{ScrubProgress, ScrubRate};
use gupfs_namespace::{KeyRange, ParsedKey, RecordKind};
use gupfs_platform::Clock;
use gupfs_proto::{FsError, Timestamp, VirtualShard, VirtualShards};
use std::sync::Arc;
use std::time::Duration;

pub struct ScrubTask {
    pub scrubber: FileScrubber,
    pub progress: Arc<ScrubProgress>,
    pub shards: VirtualShards,
    /// None: only if an administrator asks for it.
    pub period: Option<Duration>,
    pub clock: Clock,
}

impl ScrubTask {
    pub async fn run(self) {
        let mut last_turn = None;
        while self.scrubber.store.failure().is_none() {
            if let Some(rate) = self.progress.take_request() {
                self.progress.pass_begins();
                for shard in self.scrubber.store.all_shards() {
                    self.scrub_shard(shard, rate).await;
                }
                self.progress.pass_ended(self.clock.now());
                continue;
            }
            let turn = self
                .period
                .map(|period| turn_at(self.clock.now(), period, self.shards));
            if let (Some(turn), Some(period)) = (turn, self.period)
                && last_turn != Some(turn)
            {
                last_turn = Some(turn);
                let shard = VirtualShard((turn % u64::from(self.shards.0)) as u16);
                let rate = self.scheduled_rate(period);
                tokio::select! {
                    biased;
                    () = self.progress.wait() => {}
                    () = self.scrub_shard(shard, rate) => {}
                }
                continue;
            }
            tokio::select! {
                biased;
                () = self.progress.wait() => {}
                () = self.clock.sleep(SCRUB_TURN_EVERY) => {}
            }
        }
    }

    /// Twice the rate at which the period is just long enough.
    fn scheduled_rate(&self, period: Duration) -> ScrubRate {
        let used = self.scrubber.targets.used_bytes();
        let rate = 2 * used / period.as_secs().max(1);
        ScrubRate(Some(rate.max(SCRUB_RATE_MIN)))
    }

    async fn scrub_shard(&self, shard: VirtualShard, rate: ScrubRate) {
        if let Err(error) = self.try_scrub_shard(shard, rate).await {
            self.progress.file_left(error.to_string());
        }
    }

    async fn try_scrub_shard(&self, shard: VirtualShard, rate: ScrubRate) -> Result<(), FsError> {
        let pacer = Pacer {
            rate,
            clock: self.clock.clone(),
        };
        let mut range = KeyRange::of_kind(shard, RecordKind::Inode);
        loop {
            let records = self.scrubber.store.scan_now(&range, SCAN_STEP).await?;
            for (key, _) in &records {
                if let Some(ParsedKey::Inode(ino)) = key.parse() {
                    self.scrubber.scrub(ino, &pacer).await?;
                    self.progress.examined(1);
                }
            }
            match records.last() {
                Some((last, _)) if records.len() == SCAN_STEP => range.from = last.successor(),
                _ => return Ok(()),
            }
            self.clock.sleep(INODE_WALK_PAUSE).await;
        }
    }
}

/// The number of the part of a period that it is: one for each shard, counted from the epoch.
fn turn_at(now: Timestamp, period: Duration, shards: VirtualShards) -> u64 {
    let part = (period.as_secs() / u64::from(shards.0)).max(1);
    now.as_nanos().max(0) as u64 / 1_000_000_000 / part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_has_its_turn_once_in_a_period() {
        let (period, shards) = (Duration::from_secs(64 * 100), VirtualShards(64));
        let at = |seconds: i64| {
            turn_at(
                Timestamp::from_nanos(seconds * 1_000_000_000),
                period,
                shards,
            )
        };
        assert_eq!((at(0), at(99), at(100), at(6_399)), (0, 0, 1, 63));
        assert_eq!(at(6_400) % 64, 0);
        assert_eq!(at(-5), 0);
    }
}
