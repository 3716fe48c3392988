//! The rebalance task: walks over all files and has parts of them copied to emptier volumes, until the use of the volumes is even.

use super::control::RebalanceControl;
use super::plan::{FileMoves, PASSES, PassRule, PlannedFile, RebalancePlan};
use crate::conversion::{CopyPace, FileConversion, FileConverter};
use crate::limits::{
    INODE_WALK_PAUSE, REBALANCE_EVERY, REBALANCE_LEAST_STEP, REBALANCE_PATIENCE,
    REBALANCE_PLAN_KEPT, REBALANCE_REPORTS, REBALANCE_SETTLE_MAX, SCAN_STEP,
};
use crate::pending_work::ReplacementProgress;
use crate::store::damaged_record;
use bytes::Bytes;
use gupfs_namespace::{
    Inode, InodeBody, KeyRange, ParsedKey, PurgeId, Record, RecordKey, RecordKind,
};
use gupfs_platform::BootTime;
use gupfs_proto::rebalance::RebalanceOutcome;
use gupfs_proto::{FsError, InodeId};
use std::sync::Arc;

pub struct RebalanceTask {
    pub control: Arc<RebalanceControl>,
    pub converter: FileConverter,
    pub replacement: Arc<ReplacementProgress>,
}

/// The walks of a rebalance until the use is even, or each kind of file was walked over once.
struct RebalanceRound {
    plan: RebalancePlan,
    /// When the plan was made.
    planned: BootTime,
    begun: BootTime,
    /// It moves files until the use of the volumes differs so many percent points from the mean.
    goal: f64,
    /// Bytes that have moved.
    moved: u64,
    /// Removals of former objects, whose space targets do not report as free yet.
    removals: Vec<PurgeId>,
    examined: u64,
    files_left: u64,
    why: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WalkEnd {
    Complete,
    /// The use is even.
    Even,
    /// The rebalance is paused or over, or has to wait.
    Interrupted,
}

impl RebalanceTask {
    pub async fn run(self) {
        let progress = &self.control.progress;
        while self.control.store.failure().is_none() {
            if let Err(error) = self.turn().await {
                progress.waits(error.to_string());
            }
            tokio::select! {
                biased;
                () = progress.wait() => {}
                () = self.control.clock.sleep(REBALANCE_EVERY) => {}
            }
        }
    }

    async fn turn(&self) -> Result<(), FsError> {
        self.control.load().await?;
        let progress = &self.control.progress;
        let Some(record) = progress.active() else {
            return Ok(());
        };
        if self.replacement.goes_first() {
            progress.waits("the drain or the replacement of another OST goes first".into());
            return Ok(());
        }
        let (uses, absent) = self.control.targets.uses();
        // Servers report again soon after a start.
        let is_awaited = |ost: &&_| !(self.control.targets).is_down_for(**ost, REBALANCE_PATIENCE);
        if let Some(ost) = absent.iter().find(is_awaited) {
            progress.waits(format!("ost{ost} is not up"));
            return Ok(());
        }
        let within = f64::from(record.within);
        let plan = RebalancePlan::new(&uses);
        let left_before = plan.bytes_left();
        let now = self.control.clock.boot();
        let mut round = RebalanceRound {
            planned: now,
            begun: now,
            // So that the end is still even with what programs write meanwhile.
            goal: within / 2.0,
            moved: 0,
            removals: Vec::new(),
            examined: 0,
            files_left: 0,
            why: None,
            plan,
        };
        let ended = self.round(&mut round, within).await;
        progress.examined(None);
        if ended? == WalkEnd::Interrupted {
            return Ok(());
        }
        let is_even = round.plan.is_within(within);
        let least = left_before as f64 * REBALANCE_LEAST_STEP;
        if !is_even && round.moved as f64 > least && round.plan.bytes_left() < left_before {
            progress.wake();
            return Ok(());
        }
        let outcome = RebalanceOutcome {
            at: self.control.clock.now(),
            is_even: is_even && absent.is_empty(),
            why: match absent.first() {
                Some(ost) => Some(format!("ost{ost} is not up")),
                None if is_even => None,
                None => Some(round.why_not_even()),
            },
        };
        progress.estimate(None, None);
        self.control.end(record.since, outcome).await
    }

    async fn round(&self, round: &mut RebalanceRound, within: f64) -> Result<WalkEnd, FsError> {
        if round.plan.is_within(within) {
            return Ok(WalkEnd::Even);
        }
        self.control.progress.left(0, None);
        tracing::info!(
            bytes = round.plan.bytes_left(),
            "a round of the rebalance begins"
        );
        for rule in PASSES {
            (round.examined, round.files_left, round.why) = (0, 0, None);
            let end = self.walk(rule, round).await?;
            let progress = &self.control.progress;
            progress.left(round.files_left, round.why.clone());
            match end {
                WalkEnd::Complete => {}
                WalkEnd::Even => break,
                WalkEnd::Interrupted => return Ok(end),
            }
        }
        self.plan_again(round).await?;
        Ok(WalkEnd::Complete)
    }

    async fn walk(&self, rule: PassRule, round: &mut RebalanceRound) -> Result<WalkEnd, FsError> {
        let store = &self.control.store;
        for shard in store.all_shards() {
            let mut range = KeyRange::of_kind(shard, RecordKind::Inode);
            loop {
                let records = store.scan_now(&range, SCAN_STEP).await?;
                for (key, value) in &records {
                    if chosen(key, value, round, rule)?.is_none() {
                        continue;
                    }
                    if !self.may_go_on() {
                        return Ok(WalkEnd::Interrupted);
                    }
                    let planned = self.control.clock.boot().since(round.planned);
                    if planned >= REBALANCE_PLAN_KEPT {
                        self.plan_again(round).await?;
                    }
                    if round.plan.is_within(round.goal) {
                        return Ok(WalkEnd::Even);
                    }
                    self.move_file(key, rule, round).await?;
                }
                round.examined += records.len() as u64;
                self.control.progress.examined(Some(round.examined));
                match records.last() {
                    Some((last, _)) if records.len() == SCAN_STEP => range.from = last.successor(),
                    _ => break,
                }
                self.control.clock.sleep(INODE_WALK_PAUSE).await;
                if !self.may_go_on() {
                    return Ok(WalkEnd::Interrupted);
                }
            }
        }
        Ok(WalkEnd::Complete)
    }

    fn may_go_on(&self) -> bool {
        self.control.progress.active().is_some() && !self.replacement.goes_first()
    }

    async fn move_file(
        &self,
        key: &RecordKey,
        rule: PassRule,
        round: &mut RebalanceRound,
    ) -> Result<(), FsError> {
        // The newest record: the walk may be slow, and the plan a newer one.
        let Some(value) = self.control.store.get_now(key).await? else {
            return Ok(());
        };
        let Some((ino, moves)) = chosen(key, &value, round, rule)? else {
            return Ok(());
        };
        let pace = CopyPace {
            rebalance: &self.control.progress,
            replacement: &self.replacement,
            clock: &self.control.clock,
        };
        let moved = self
            .converter
            .move_components(ino, &moves.components, &pace);
        match moved.await? {
            FileConversion::Done { former, .. } => {
                round.plan.moved(&moves);
                round.moved += moves.bytes();
                round.removals.push(former);
                self.control.progress.file_moved(moves.bytes());
            }
            // It was given up because something else goes first.
            FileConversion::Left(_) if !self.may_go_on() => {}
            FileConversion::Left(why) => {
                round.files_left += 1;
                round.why.get_or_insert(format!("inode {ino}: {why}"));
            }
        }
        self.estimate(round);
        Ok(())
    }

    fn estimate(&self, round: &RebalanceRound) {
        let left = round.plan.bytes_left();
        let time = self.control.clock.boot().since(round.begun).as_secs_f64();
        let seconds = time * left as f64 / round.moved as f64;
        let seconds = (round.moved > 0).then_some(seconds.ceil() as u64);
        self.control.progress.estimate(Some(left), seconds);
    }

    /// Makes a new plan from the space that targets report, when that does not include the former objects any more.
    async fn plan_again(&self, round: &mut RebalanceRound) -> Result<(), FsError> {
        let clock = &self.control.clock;
        let until = clock.boot() + REBALANCE_SETTLE_MAX;
        if !round.removals.is_empty() {
            let keys: Vec<RecordKey> = (round.removals.drain(..)).map(RecordKey::purge).collect();
            while clock.boot() < until {
                let records = self.control.store.get_all_now(keys.clone()).await?;
                if records.iter().all(Option::is_none) {
                    break;
                }
                clock.sleep(REBALANCE_REPORTS).await;
            }
            clock.sleep(REBALANCE_REPORTS).await;
        }
        let (uses, _) = self.control.targets.uses();
        round.plan = RebalancePlan::new(&uses);
        round.planned = clock.boot();
        self.estimate(round);
        Ok(())
    }
}

impl RebalanceRound {
    fn why_not_even(&self) -> String {
        match (&self.why, self.files_left) {
            (Some(why), files) => format!("{files} files could not be moved ({why})"),
            (None, _) => "no other object makes the use of the OSTs more even, or the emptier ones have too little space for a copy".into(),
        }
    }
}

/// The number of a file, and what the plan moves of it; None if nothing.
fn chosen(
    key: &RecordKey,
    value: &Bytes,
    round: &RebalanceRound,
    rule: PassRule,
) -> Result<Option<(InodeId, FileMoves)>, FsError> {
    let Some(ParsedKey::Inode(ino)) = key.parse() else {
        return Ok(None);
    };
    let inode = Inode::decode(value).map_err(|error| damaged_record(key, error))?;
    let InodeBody::File(file) = &inode.body else {
        return Ok(None);
    };
    let planned = PlannedFile {
        ino,
        layout: &file.layout,
        size: inode.size,
        blocks: inode.blocks,
    };
    let moves = round.plan.choose(&planned, rule);
    Ok(moves.map(|moves| (ino, moves)))
}
