//! What the resync of stale members has done and has left.

use gupfs_proto::FsError;
use parking_lot::Mutex;
use serde::Serialize;

/// Whether there may be files with stale members, and what the task has done about them. The records `Y` are the truth.
pub struct ResyncProgress(Mutex<ExpectedResyncs>);

struct ExpectedResyncs {
    expected: bool,
    status: ResyncStatus,
}

/// Progress of resyncs, for `status`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ResyncStatus {
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
    pub done: u64,
    pub left: u64,
    pub compared: u64,
    pub copied: u64,
    pub why: Option<String>,
}

impl Default for ResyncProgress {
    fn default() -> ResyncProgress {
        ResyncProgress(Mutex::new(ExpectedResyncs {
            expected: true,
            status: ResyncStatus::default(),
        }))
    }
}

impl ResyncProgress {
    /// A file has a stale member.
    pub fn expect(&self) {
        self.0.lock().expected = true;
    }

    pub fn status(&self) -> ResyncStatus {
        self.0.lock().status.clone()
    }

    /// Whether a round is due; a member that becomes stale from now on expects the next.
    pub fn take(&self) -> bool {
        std::mem::take(&mut self.0.lock().expected)
    }

    /// Notes the result of a round.
    pub fn ended(&self, round: Result<ResyncRound, FsError>) {
        let mut resyncs = self.0.lock();
        let round = round.unwrap_or_else(|error| ResyncRound {
            left: 1,
            why: Some(error.to_string()),
            ..ResyncRound::default()
        });
        resyncs.expected |= round.left > 0;
        let status = &mut resyncs.status;
        status.files_done += round.done;
        status.bytes_compared += round.compared;
        status.bytes_copied += round.copied;
        status.files_left = round.left;
        status.last_error = round.why;
    }
}
