//! The history of the calls on two files that all programs change concurrently, in the format of `gupfs verify`.

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
    /// None until the files exist.
    pub files: Option<Files>,
    /// Whether a program creates the files now.
    pub is_creating: bool,
    pub records: Vec<Record>,
    /// Number of calls on the files that are in flight.
    pub calls_in_flight: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Files {
    pub bytes: InodeId,
    pub attrs: InodeId,
    /// The power losses before the files were created. The next one that may undo a change ends the history.
    pub power_losses: PowerLosses,
}

/// A record without a reply: its files, and its index in the history.
pub struct CallRecord {
    pub files: Files,
    pub index: usize,
}

impl CallHistory {
    /// Checks that some order of the calls explains the replies so far.
    ///
    /// # Panics
    /// When no order does; prints the fewest records that show it.
    pub fn check(&mut self, client_hosts: usize, monitor: &RequestMonitor) {
        let records = std::mem::take(&mut self.records);
        if records.is_empty() {
            return;
        }
        let mounts = 0..client_hosts as u16;
        let history = gupfs_verify::history::History::new(mounts.collect(), records);
        let judgement = judge(&history, Model::Posix, Bound::default());
        monitor.count("checked history");
        if judgement.undecided > 0 {
            monitor.count("history that the checker could not decide");
        }
        let Some(finding) = judgement.findings.first() else {
            return;
        };
        let lines = finding.records.iter().map(|index| {
            let record = &history.records[*index];
            let (client, end) = (record.worker, record.end.unwrap_or_default());
            let (asked, answered) = (record.asked(), record.answered());
            format!(
                "  {:6} to {end:6} c{client} {asked}: {answered}\n",
                record.start
            )
        });
        let lines: String = lines.collect();
        panic!("no order of the calls explains {}:\n{lines}", finding.about);
    }

    /// The metadata server loses power. The history ends if a call is in flight, because its change may be undone.
    pub fn lose_names(&mut self) {
        if self.calls_in_flight > 0 {
            self.files = None;
        }
    }

    /// Records a call; `end_call` must follow. Returns the call with its tag, which the bytes of a write carry. Returns None if
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
        let index = self.records.len();
        // The checker requires only that the numbers of one worker rise.
        let number = index as u32;
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
        self.calls_in_flight += 1;
        Some((CallRecord { files, index }, call))
    }

    /// A call has ended, with or without a reply.
    pub fn end_call(&mut self) {
        self.calls_in_flight -= 1;
    }

    /// The call and this reply, for messages.
    pub fn describe(&self, call_record: &CallRecord, answer: &Answer) -> (String, String) {
        let found = self.records.get(call_record.index);
        let Some(record) = found.filter(|_| self.files == Some(call_record.files)) else {
            return ("a call of a history that has ended".into(), String::new());
        };
        let record = Record {
            answer: answer.clone(),
            ..record.clone()
        };
        (record.asked(), record.answered())
    }

    /// Records the reply, unless the call's history has ended.
    pub fn record_reply(&mut self, call_record: &CallRecord, answer: Answer, end: u64) {
        if self.files == Some(call_record.files) {
            let record = &mut self.records[call_record.index];
            (record.answer, record.end) = (answer, Some(end));
        }
    }
}

/// The file that a call concerns.
fn subject_of(call: &Call) -> Subject {
    match call {
        Call::SetMode { .. } | Call::SetTime { .. } | Call::Stat => ATTRS,
        _ => BYTES,
    }
}
