//! What the resync of stale members has done and has left, and how an administrator holds it back.

use gupfs_platform::BootTime;
use gupfs_proto::FsError;
use gupfs_proto::resync::{ResyncChange, ResyncState};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::sync::Notify;

/// Whether there may be files with stale members, and what the task has done about them. The records `Y` are the truth.
pub struct ResyncProgress {
    resyncs: Mutex<ExpectedResyncs>,
    wake: Notify,
}

struct ExpectedResyncs {
    expected: bool,
    /// A round is under way since then.
    running_since: Option<BootTime>,
    rate: Option<u64>,
    is_paused: bool,
    /// When the bytes are paid for, at the rate, that were copied so far.
    paid_until: BootTime,
    /// Of the round under way, or the last one: files with stale members, the bytes of these, and the part of both that the round has passed.
    found: RoundWork,
    passed: RoundWork,
    /// Since the start.
    files_done: u64,
    bytes_compared: u64,
    bytes_copied: u64,
    /// Files with stale members that the last round had to leave, and why.
    files_left: u64,
    last_error: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RoundWork {
    pub files: u64,
    pub bytes: u64,
}

/// The result of one round.
#[derive(Default)]
pub struct ResyncRound {
    pub left: u64,
    pub why: Option<String>,
}

impl Default for ResyncProgress {
    fn default() -> ResyncProgress {
        ResyncProgress::new(None)
    }
}

impl ResyncProgress {
    /// `rate`: bytes that may be copied a second.
    pub fn new(rate: Option<u64>) -> ResyncProgress {
        ResyncProgress {
            resyncs: Mutex::new(ExpectedResyncs {
                expected: true,
                running_since: None,
                rate,
                is_paused: false,
                paid_until: BootTime(0),
                found: RoundWork::default(),
                passed: RoundWork::default(),
                files_done: 0,
                bytes_compared: 0,
                bytes_copied: 0,
                files_left: 0,
                last_error: None,
            }),
            wake: Notify::new(),
        }
    }

    /// A file has a stale member.
    pub fn expect(&self) {
        self.resyncs.lock().expected = true;
    }

    /// The next round need not wait: members have got other OSTs.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Returns after a `wake`.
    pub async fn wait(&self) {
        self.wake.notified().await;
    }

    /// Holds back the resync, or goes on; returns how far it is.
    pub fn manage(&self, change: ResyncChange, now: BootTime) -> ResyncState {
        let mut resyncs = self.resyncs.lock();
        match change {
            ResyncChange::Rate(rate) => {
                resyncs.rate = Some(rate).filter(|rate| *rate > 0);
                resyncs.paid_until = now;
            }
            ResyncChange::Pause => resyncs.is_paused = true,
            ResyncChange::Resume => resyncs.is_paused = false,
            ResyncChange::Ask => {}
        }
        drop(resyncs);
        if change == ResyncChange::Resume {
            self.wake();
        }
        self.state(now)
    }

    pub fn state(&self, now: BootTime) -> ResyncState {
        let resyncs = self.resyncs.lock();
        let left = RoundWork {
            files: resyncs.found.files.saturating_sub(resyncs.passed.files),
            bytes: resyncs.found.bytes.saturating_sub(resyncs.passed.bytes),
        };
        let time = (resyncs.running_since).map(|since| now.since(since).as_secs_f64());
        let passed = resyncs.passed.bytes;
        let seconds_left = time
            .filter(|_| passed > 0 && !resyncs.is_paused)
            .map(|time| (time * left.bytes as f64 / passed as f64).ceil() as u64);
        ResyncState {
            rate: resyncs.rate,
            is_paused: resyncs.is_paused,
            is_expected: resyncs.expected || time.is_some(),
            files_done: resyncs.files_done,
            bytes_compared: resyncs.bytes_compared,
            bytes_copied: resyncs.bytes_copied,
            files_left: match time {
                Some(_) => left.files,
                None => resyncs.files_left,
            },
            bytes_left: left.bytes,
            seconds_left,
            last_error: resyncs.last_error.clone(),
        }
    }

    pub fn is_paused(&self) -> bool {
        self.resyncs.lock().is_paused
    }

    pub fn rate(&self) -> Option<u64> {
        self.resyncs.lock().rate
    }

    /// So many bytes were copied. Returns the time from which on the next may be.
    pub fn spend(&self, now: BootTime, bytes: u64) -> BootTime {
        let mut resyncs = self.resyncs.lock();
        let Some(rate) = resyncs.rate else {
            return now;
        };
        let cost = Duration::from_secs_f64(bytes as f64 / rate as f64);
        resyncs.paid_until = resyncs.paid_until.max(now) + cost;
        resyncs.paid_until
    }

    /// Whether a round is due; a member that becomes stale from now on expects the next.
    pub fn take(&self, now: BootTime) -> bool {
        let mut resyncs = self.resyncs.lock();
        if resyncs.is_paused {
            return false;
        }
        let is_due = std::mem::take(&mut resyncs.expected);
        resyncs.running_since = is_due.then_some(now);
        is_due
    }

    /// What the round has to do.
    pub fn round_found(&self, found: RoundWork) {
        let mut resyncs = self.resyncs.lock();
        (resyncs.found, resyncs.passed) = (found, RoundWork::default());
    }

    /// The round is over with a file whose stale members have so many bytes.
    pub fn round_passed(&self, bytes: u64) {
        let mut resyncs = self.resyncs.lock();
        resyncs.passed.files += 1;
        resyncs.passed.bytes = resyncs.passed.bytes.saturating_add(bytes);
    }

    /// Notes that all members of a file are full, and the bytes that this took.
    pub fn file_done(&self, compared: u64, copied: u64) {
        let mut resyncs = self.resyncs.lock();
        resyncs.files_done += 1;
        resyncs.bytes_compared += compared;
        resyncs.bytes_copied += copied;
    }

    /// Notes the result of a round.
    pub fn ended(&self, round: Result<ResyncRound, FsError>) {
        let mut resyncs = self.resyncs.lock();
        let round = round.unwrap_or_else(|error| ResyncRound {
            left: 1,
            why: Some(error.to_string()),
        });
        resyncs.running_since = None;
        resyncs.expected |= round.left > 0;
        resyncs.files_left = round.left;
        resyncs.last_error = round.why;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_resync_is_expected_until_a_round_that_began_later_has_left_nothing() {
        let (progress, now) = (ResyncProgress::new(None), BootTime(0));
        progress.expect();
        assert!(progress.take(now));
        // The round is under way, and does not see this member any more.
        assert!(progress.state(now).is_expected);
        progress.expect();
        progress.ended(Ok(ResyncRound::default()));
        assert!(progress.state(now).is_expected);
        assert!(progress.take(now));
        let left = ResyncRound { left: 1, why: None };
        progress.ended(Ok(left));
        assert!(progress.state(now).is_expected);
        assert!(progress.take(now));
        progress.ended(Ok(ResyncRound::default()));
        assert!(!progress.state(now).is_expected);
        assert!(!progress.take(now));
        assert!(!progress.state(now).is_expected);
    }

    #[test]
    fn a_paused_resync_is_expected_and_begins_no_round() {
        let (progress, now) = (ResyncProgress::new(None), BootTime(0));
        assert!(progress.manage(ResyncChange::Pause, now).is_paused);
        assert!(!progress.take(now));
        assert!(progress.state(now).is_expected);
        assert!(!progress.manage(ResyncChange::Resume, now).is_paused);
        assert!(progress.take(now));
    }

    #[test]
    fn what_copies_spend_together_keeps_to_the_rate_and_unused_time_is_not_kept() {
        let progress = ResyncProgress::new(Some(100));
        assert_eq!(progress.spend(BootTime(0), 100), BootTime(SECOND));
        assert_eq!(progress.spend(BootTime(0), 50), BootTime(SECOND * 3 / 2));
        let later = BootTime(10 * SECOND);
        assert_eq!(progress.spend(later, 100), BootTime(11 * SECOND));
        progress.manage(ResyncChange::Rate(1_000), later);
        assert_eq!(progress.spend(later, 1_000), BootTime(11 * SECOND));
        assert_eq!(progress.manage(ResyncChange::Rate(0), later).rate, None);
        assert_eq!(progress.spend(later, 1 << 40), later);
    }

    #[test]
    fn the_rest_of_a_round_takes_as_long_for_each_byte_as_what_it_has_passed() {
        let progress = ResyncProgress::new(None);
        let ask = |second| progress.manage(ResyncChange::Ask, BootTime(second * SECOND));
        assert!(progress.take(BootTime(0)));
        let found = RoundWork {
            files: 3,
            bytes: 400,
        };
        progress.round_found(found);
        assert_eq!((ask(1).files_left, ask(1).seconds_left), (3, None));
        progress.round_passed(100);
        let state = ask(2);
        assert_eq!((state.files_left, state.bytes_left), (2, 300));
        assert_eq!(state.seconds_left, Some(6));
    }
}
