//! The calls on two files that all programs change concurrently, in the format of `gupfs verify`.

use super::fault_record::PowerLosses;
use super::request_monitor::RequestMonitor;
use gupfs_proto::InodeId;
use gupfs_verify::check::{Bound, Model, judge};
use gupfs_verify::history::{Answer, Call, Record, tag};
use gupfs_verify::subject::Subject;

const BYTES: Subject = Subject::Data(0);
const ATTRS: Subject = Subject::Attr(0);

/// The files, and the calls on them.
#[derive(Default)]
pub struct CallHistory {
    /// None while the files do not exist yet.
    pub files: Option<Files>,
    /// A program creates them now.
    pub making: bool,
    pub records: Vec<Record>,
    /// Number of calls on these files that are under way.
    pub open: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Files {
    pub bytes: InodeId,
    pub attrs: InodeId,
    /// The power losses before the files were created: with one more the history ends.
    pub power_losses: PowerLosses,
}

/// The position of a record that has no reply yet.
pub struct CallRecord {
    pub of: Files,
    pub at: usize,
}

impl CallHistory {
    /// Checks that the calls and replies so far are possible.
    ///
    /// # Panics
    /// When they are not: prints the fewest records that show it.
    pub fn check(&mut self, client_hosts: usize, monitor: &RequestMonitor) {
        let records = std::mem::take(&mut self.records);
        if records.is_empty() {
            return;
        }
        let mounts = 0..client_hosts as u16;
        let history = gupfs_verify::history::History::new(mounts.collect(), records);
        let judgement = judge(&history, Model::Posix, Bound::default());
        monitor.count("judged history");
        if judgement.undecided > 0 {
            monitor.count("history that the checker could not decide");
        }
        let Some(finding) = judgement.findings.first() else {
            return;
        };
        let shown = finding.records.iter().map(|index| {
            let record = &history.records[*index];
            let (who, end) = (record.worker, record.end.unwrap_or_default());
            let (asked, answered) = (record.asked(), record.answered());
            format!(
                "  {:6} to {end:6} c{who} {asked}: {answered}\n",
                record.start
            )
        });
        let shown: String = shown.collect();
        panic!("no order of the calls explains {}:\n{shown}", finding.about);
    }

    /// The metadata server loses power.
    pub fn lose_names(&mut self) {
        if self.open > 0 {
            self.files = None;
        }
    }

    /// A call begins; `ended` must follow. Returns the call with its tag, which the bytes of a write carry. None if
    /// this history has ended.
    pub fn begin_call(
        &mut self,
        files: Files,
        (worker, start): (u16, u64),
        call: Call,
    ) -> Option<(CallRecord, Call)> {
        if self.files != Some(files) {
            return None;
        }
        let at = self.records.len();
        // The numbers of one worker must rise, and that is their only requirement.
        let number = at as u32;
        let call = match call {
            Call::Write { range, flavour, .. } => Call::Write {
                range,
                tag: tag::of(worker, number),
                flavour,
            },
            other => other,
        };
        self.records.push(Record {
            worker,
            number,
            subject: subject_of(&call),
            call,
            start,
            end: None,
            answer: Answer::None,
        });
        self.open += 1;
        Some((CallRecord { of: files, at }, call))
    }

    /// A call has ended, with or without a reply.
    pub fn end_call(&mut self) {
        self.open -= 1;
    }

    /// Records the reply, unless the call's history has ended.
    pub fn record_reply(&mut self, call_record: &CallRecord, answer: Answer, end: u64) {
        if self.files == Some(call_record.of) {
            let record = &mut self.records[call_record.at];
            (record.answer, record.end) = (answer, Some(end));
        }
    }
}

/// The file that a call is about.
fn subject_of(call: &Call) -> Subject {
    match call {
        Call::SetMode { .. } | Call::SetTime { .. } | Call::Stat => ATTRS,
        _ => BYTES,
    }
}
