//! What the replacement of members on lost OSTs, and the drain of OSTs, have done and have left.

use gupfs_proto::{FsError, OstId, Timestamp};
use parking_lot::Mutex;
use serde::Serialize;
use std::time::Duration;
use tokio::sync::Notify;

/// Whether there may be members on lost OSTs, and what the task has done about them. The layouts are the truth.
pub struct ReplacementProgress {
    expected: Mutex<ExpectedReplacements>,
    wake: Notify,
}

struct ExpectedReplacements {
    expected: bool,
    /// A walk is under way.
    is_running: bool,
    /// The last walk could do nothing, and nothing new was to do since.
    is_stuck: bool,
    /// The files that had moved when the last walk ended.
    moved_before: u64,
    status: ReplacementStatus,
}

/// Progress of replacements, for `status`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ReplacementStatus {
    /// A walk is due or under way.
    pub is_expected: bool,
    /// A walk over all inodes is under way, and has examined so many.
    pub is_walking: bool,
    pub inodes_examined: u64,
    /// Since the start: files of which a member got another OST.
    pub files_replaced: u64,
    /// Mirrored files with a member on a lost OST that the last walk had to leave, and why: they have less redundancy than they should.
    pub files_left: u64,
    /// Files that have lost bytes.
    pub files_lost: u64,
    /// Since the start: files of which objects moved away from OSTs that are drained, and their bytes.
    pub files_moved: u64,
    pub bytes_moved: u64,
    /// What the walk under way has still to move, from OSTs that are drained.
    pub estimate: Option<DrainEstimate>,
    /// The OSTs that were being drained during the last complete walk.
    pub draining: Vec<WalkedDrain>,
    pub last_error: Option<String>,
}

/// What is left of a walk that moves objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct DrainEstimate {
    pub bytes_left: u64,
    /// At the rate of the walk so far; None before it has moved anything.
    pub seconds_left: Option<u64>,
}

impl DrainEstimate {
    /// Of `found` bytes `passed` are behind the walk, which took so long for them.
    pub fn new(found: u64, passed: u64, time: Duration) -> DrainEstimate {
        let bytes_left = found.saturating_sub(passed);
        let seconds = time.as_secs_f64() * bytes_left as f64 / passed as f64;
        DrainEstimate {
            bytes_left,
            seconds_left: (passed > 0).then_some(seconds.ceil() as u64),
        }
    }
}

/// What a walk has found of an OST that was being drained when it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct WalkedDrain {
    pub ost: OstId,
    pub since: Timestamp,
    /// Files that still have objects there.
    pub files_left: u64,
}

/// The result of one walk.
#[derive(Default)]
pub struct ReplacementRound {
    pub replaced: u64,
    pub left: u64,
    pub lost: u64,
    pub draining: Vec<WalkedDrain>,
    pub why: Option<String>,
}

impl Default for ReplacementProgress {
    fn default() -> ReplacementProgress {
        ReplacementProgress {
            // OSTs may have been lost before this start.
            expected: Mutex::new(ExpectedReplacements {
                expected: true,
                is_running: false,
                is_stuck: false,
                moved_before: 0,
                status: ReplacementStatus::default(),
            }),
            wake: Notify::new(),
        }
    }
}

impl ReplacementProgress {
    /// An OST was declared lost, or its drain begins.
    pub fn expect(&self) {
        let mut replacements = self.expected.lock();
        (replacements.expected, replacements.is_stuck) = (true, false);
        drop(replacements);
        self.wake.notify_one();
    }

    /// Returns when an OST was declared lost.
    pub async fn wait(&self) {
        self.wake.notified().await;
    }

    pub fn status(&self) -> ReplacementStatus {
        let replacements = self.expected.lock();
        ReplacementStatus {
            is_expected: replacements.expected || replacements.is_running,
            ..replacements.status.clone()
        }
    }

    /// Whether a walk is due; an OST that is lost from now on expects the next.
    pub fn take(&self) -> bool {
        let mut replacements = self.expected.lock();
        replacements.is_running = std::mem::take(&mut replacements.expected);
        replacements.is_running
    }

    /// Whether there is work that less urgent copies should not hinder.
    pub fn goes_first(&self) -> bool {
        let replacements = self.expected.lock();
        (replacements.expected || replacements.is_running) && !replacements.is_stuck
    }

    /// A walk has examined so many inodes.
    pub fn examined(&self, inodes: u64) {
        let status = &mut self.expected.lock().status;
        (status.is_walking, status.inodes_examined) = (true, inodes);
    }

    /// What the walk has still to move.
    pub fn estimate(&self, estimate: DrainEstimate) {
        self.expected.lock().status.estimate = Some(estimate);
    }

    /// The walk has moved objects of a file, with so many bytes.
    pub fn moved(&self, bytes: u64) {
        let status = &mut self.expected.lock().status;
        status.files_moved += 1;
        status.bytes_moved += bytes;
    }

    /// Notes the result of a walk; returns whether it left files.
    pub fn ended(&self, round: Result<ReplacementRound, FsError>) -> bool {
        let mut replacements = self.expected.lock();
        let moved = replacements.status.files_moved;
        let has_moved = std::mem::replace(&mut replacements.moved_before, moved) < moved;
        let has_replaced = round.as_ref().is_ok_and(|round| round.replaced > 0);
        // A request that came during the walk is new work.
        replacements.is_stuck = !replacements.expected && !has_moved && !has_replaced;
        let (is_complete, round) = match round {
            Ok(round) => {
                let is_drained = round.draining.iter().all(|drain| drain.files_left == 0);
                (round.left == 0 && is_drained, round)
            }
            Err(error) => (
                false,
                ReplacementRound {
                    left: replacements.status.files_left,
                    lost: replacements.status.files_lost,
                    draining: replacements.status.draining.clone(),
                    why: Some(error.to_string()),
                    ..ReplacementRound::default()
                },
            ),
        };
        replacements.is_running = false;
        replacements.expected |= !is_complete;
        let status = &mut replacements.status;
        (status.is_walking, status.estimate) = (false, None);
        status.files_replaced += round.replaced;
        status.files_left = round.left;
        status.files_lost = round.lost;
        status.draining = round.draining;
        status.last_error = round.why;
        !is_complete
    }
}
