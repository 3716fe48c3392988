//! # project: a history taken apart
//!
//! Owns   which parts a history has, and what each operation is in each of them; what is permitted to be anything.
//! Never  judges.
//! Enter  at [`parts`].

mod attr;
mod bytes;
mod held;
mod interval_index;
mod lengths;
mod locks;
mod log;
mod names;

use std::collections::BTreeMap;

use libc::{
    EACCES, EAGAIN, EINTR, EINVAL, EIO, ENODEV, ENOLCK, ENOSYS, ENOTCONN, ENOTTY, EOPNOTSUPP,
    EPERM, ESTALE, ETIMEDOUT, EXDEV,
};

use super::part::{HistoryPart, ImpossibleAnswer};
use super::search::Timed;
use crate::history::{Answer, Call, History, Record, Rename};
use crate::subject::Subject;

pub use attr::ATTRIBUTES;
pub(super) use bytes::{acts_of as words_acts, words};
pub(super) use locks::add as locks_of;

/// A history's parts.
#[derive(Default)]
pub struct HistoryParts {
    pub parts: Vec<Box<dyn HistoryPart>>,
    /// Looks that were left out, as they may show anything.
    pub permitted: usize,
}

/// The records of one subject, with their indices in the history.
pub(super) struct SubjectRecords<'a> {
    pub subject: Subject,
    pub records: Vec<(usize, &'a Record)>,
}

pub(super) fn by_subject(history: &History) -> Vec<SubjectRecords<'_>> {
    let mut subjects: BTreeMap<Subject, Vec<(usize, &Record)>> = BTreeMap::new();
    for (index, record) in history.records.iter().enumerate() {
        subjects
            .entry(record.subject)
            .or_default()
            .push((index, record));
    }
    subjects
        .into_iter()
        .map(|(subject, records)| SubjectRecords { subject, records })
        .collect()
}

pub fn parts(history: &History) -> HistoryParts {
    let mut parts = HistoryParts::default();
    for of in by_subject(history) {
        match of.subject {
            Subject::Names(_) => names::add(&of, &mut parts),
            Subject::Data(_) | Subject::Mapped(_) | Subject::Spliced(_) => {
                refusals(&of, &mut parts);
                bytes::add(&of, &mut parts);
                lengths::add(&of, &mut parts);
            }
            Subject::Log(_) => {
                refusals(&of, &mut parts);
                log::add(&of, &mut parts);
            }
            Subject::Attr(_) => {
                refusals(&of, &mut parts);
                attr::add(&of, &mut parts);
            }
            Subject::Lock(_) => locks::add(&of, &mut parts),
            Subject::HeldData(_) | Subject::HeldMapped(_) => {
                refusals(&of, &mut parts);
                bytes::add(&of, &mut parts);
                lengths::add(&of, &mut parts);
            }
            Subject::HeldAttr(_) => {
                refusals(&of, &mut parts);
                attr::add(&of, &mut parts);
            }
            Subject::HeldDir(_) => held::add_directory(&of, &history.mount_of, &mut parts),
        }
    }
    parts
}

/// How an operation ended, as far as models care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Answered,
    Refused(i32),
    /// It may have happened or not: no answer, or an error that says as little.
    Unknown,
    /// The file system cannot do this.
    Unsupported,
}

pub(super) fn ended(record: &Record) -> Ended {
    if record.answer == Answer::None || record.end.is_none() {
        return Ended::Unknown;
    }
    let Some(errno) = record.answer.errno() else {
        return Ended::Answered;
    };
    let lock = matches!(record.call, Call::Lock { .. });
    match errno {
        EAGAIN | EACCES if lock => Ended::Refused(errno),
        EIO | ETIMEDOUT | ENOTCONN | EINTR | ESTALE | EAGAIN => Ended::Unknown,
        EOPNOTSUPP | ENOSYS | ENOTTY | ENODEV | ENOLCK => Ended::Unsupported,
        EINVAL if flagged(&record.call) => Ended::Unsupported,
        // What Linux answers where a file system has neither this call nor splice.
        EINVAL | EXDEV if matches!(record.call, Call::Splice { .. }) => Ended::Unsupported,
        // Some file systems have no links.
        EPERM if matches!(record.call, Call::Symlink { .. }) => Ended::Unsupported,
        _ => Ended::Refused(errno),
    }
}

/// How much an answer says, for a report's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    Enough,
    /// It may have happened or not.
    Nothing,
    /// The file system does not know this operation.
    Unsupported,
}

pub fn certainty(record: &Record) -> Certainty {
    match ended(record) {
        Ended::Unknown => Certainty::Nothing,
        Ended::Unsupported => Certainty::Unsupported,
        Ended::Answered | Ended::Refused(_) => Certainty::Enough,
    }
}

/// Calls whose flags a file system may not know.
fn flagged(call: &Call) -> bool {
    match call {
        Call::Rename { how, .. } => *how != Rename::Over,
        Call::Allocate { .. } | Call::SetXattr { .. } => true,
        _ => false,
    }
}

impl SubjectRecords<'_> {
    /// An act for each record that is one here.
    fn acts<Act>(
        &self,
        mut act: impl FnMut(&Record) -> Option<Act>,
    ) -> impl Iterator<Item = Timed<Act>> {
        self.records
            .iter()
            .filter_map(move |(index, record)| Some(timed(act(record)?, *index, record)))
    }
}

/// An act that was answered when its record was.
fn timed<Act>(act: Act, index: usize, record: &Record) -> Timed<Act> {
    let known = matches!(ended(record), Ended::Answered | Ended::Refused(_));
    Timed {
        act,
        start: record.start,
        end: record.end.filter(|_| known),
        record: index,
    }
}

/// Files whose names no operation changes refuse nothing.
fn refusals(of: &SubjectRecords, parts: &mut HistoryParts) {
    let refused = of.records.iter().find(|(_, record)| match ended(record) {
        Ended::Refused(libc::ENODATA) => record.call != Call::RemoveXattr,
        Ended::Refused(_) => true,
        _ => false,
    });
    if let Some((index, record)) = refused {
        parts.parts.push(Box::new(ImpossibleAnswer {
            about: format!(
                "{} of {}, which nothing can refuse",
                record.call.name(),
                crate::subject::subject_path(of.subject)
            ),
            record: *index,
        }));
    }
}
