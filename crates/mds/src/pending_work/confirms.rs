//! Whether files closed without a sync wait for the confirmation of their objects.
//!
//! The records `L` are the truth. Memory holds only whether there may be any.

use gupfs_proto::FsError;
use parking_lot::Mutex;
use serde::Serialize;

/// Whether there may be files in doubt, and what the task has done about them.
pub struct ConfirmProgress(Mutex<ExpectedConfirms>);

struct ExpectedConfirms {
    /// There may be records: at the start those of earlier starts.
    expected: bool,
    status: ConfirmStatus,
}

/// Progress of confirming, for `status`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ConfirmStatus {
    /// Since the start.
    pub files_done: u64,
    /// Files that the last round had to leave, and why.
    pub files_left: u64,
    pub last_error: Option<String>,
}

/// The result of one round.
#[derive(Default)]
pub struct ConfirmRound {
    pub done: u64,
    pub left: u64,
    pub why: Option<FsError>,
}

impl Default for ConfirmProgress {
    fn default() -> ConfirmProgress {
        ConfirmProgress(Mutex::new(ExpectedConfirms {
            expected: true,
            status: ConfirmStatus::default(),
        }))
    }
}

impl ConfirmProgress {
    /// A file was closed without a sync.
    pub fn expect(&self) {
        self.0.lock().expected = true;
    }

    pub fn status(&self) -> ConfirmStatus {
        self.0.lock().status.clone()
    }

    /// Whether a round is due; a file that is closed from now on expects the next.
    pub fn take(&self) -> bool {
        std::mem::take(&mut self.0.lock().expected)
    }

    /// Notes the result of a round.
    pub fn ended(&self, round: Result<ConfirmRound, FsError>) {
        let mut confirms = self.0.lock();
        let round = round.unwrap_or_else(|error| ConfirmRound {
            left: 1,
            why: Some(error),
            ..ConfirmRound::default()
        });
        confirms.expected |= round.left > 0;
        confirms.status.files_done += round.done;
        confirms.status.files_left = round.left;
        confirms.status.last_error = round.why.map(|why| why.to_string());
    }
}
