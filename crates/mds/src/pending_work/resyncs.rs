//! What the resync of stale members has done and has left.

use gupfs_proto::FsError;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Notify;

/// Whether there may be files with stale members, and what the task has done about them. The records `Y` are the truth.
pub struct ResyncProgress {
    resyncs: Mutex<ExpectedResyncs>,
    wake: Notify,
}

struct ExpectedResyncs {
    expected: bool,
    /// A round is under way.
    is_running: bool,
    status: ResyncStatus,
}

/// Progress of resyncs, for `status`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ResyncStatus {
    /// There may be files with stale members that no complete round has examined since.
    pub is_expected: bool,
    /// Since the start.
    pub files_done: u64,
    pub bytes_compared: u64,
    pub bytes_copied: u64,
    /// Files with stale members that the last round had to leave, and why.
    pub files_left: u64,
    pub last_error: Option<String>,
}

/// The result of one round.
#[derive(Default)]
pub struct ResyncRound {
    pub left: u64,
    pub why: Option<String>,
}

impl Default for ResyncProgress {
    fn default() -> ResyncProgress {
        ResyncProgress {
            resyncs: Mutex::new(ExpectedResyncs {
                expected: true,
                is_running: false,
                status: ResyncStatus::default(),
            }),
            wake: Notify::new(),
        }
    }
}

impl ResyncProgress {
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

    pub fn status(&self) -> ResyncStatus {
        let resyncs = self.resyncs.lock();
        ResyncStatus {
            is_expected: resyncs.expected || resyncs.is_running,
            ..resyncs.status.clone()
        }
    }

    /// Whether a round is due; a member that becomes stale from now on expects the next.
    pub fn take(&self) -> bool {
        let mut resyncs = self.resyncs.lock();
        resyncs.is_running = std::mem::take(&mut resyncs.expected);
        resyncs.is_running
    }

    /// Notes that all members of a file are full, and the bytes that this took.
    pub fn file_done(&self, compared: u64, copied: u64) {
        let status = &mut self.resyncs.lock().status;
        status.files_done += 1;
        status.bytes_compared += compared;
        status.bytes_copied += copied;
    }

    /// Notes the result of a round.
    pub fn ended(&self, round: Result<ResyncRound, FsError>) {
        let mut resyncs = self.resyncs.lock();
        let round = round.unwrap_or_else(|error| ResyncRound {
            left: 1,
            why: Some(error.to_string()),
        });
        resyncs.is_running = false;
        resyncs.expected |= round.left > 0;
        let status = &mut resyncs.status;
        status.files_left = round.left;
        status.last_error = round.why;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resync_is_expected_until_a_round_that_began_later_has_left_nothing() {
        let progress = ResyncProgress::default();
        progress.expect();
        assert!(progress.take());
        // The round is under way, and does not see this member any more.
        assert!(progress.status().is_expected);
        progress.expect();
        progress.ended(Ok(ResyncRound::default()));
        assert!(progress.status().is_expected);
        assert!(progress.take());
        let left = ResyncRound { left: 1, why: None };
        progress.ended(Ok(left));
        assert!(progress.status().is_expected);
        assert!(progress.take());
        progress.ended(Ok(ResyncRound::default()));
        assert!(!progress.status().is_expected);
        assert!(!progress.take());
        assert!(!progress.status().is_expected);
    }
}
