//! Close-to-open, the weaker contract: a program that opens a file sees at least the bytes of the writers that had closed it before.
//!
//! Bytes: a read must not show what was overwritten by a write that was closed before the file was opened, or that the same
//! worker made itself. A write may take effect as late as its close, so what it is overwritten by must have begun after that; or be
//! the same worker's, whose writes stay in order. Locks are locks. Names, attributes, sizes, logs and what is held open are not judged:
//! the contract says nothing of them, and what a mount believes of a name decides what it asks for.

use super::project::{Ended, HistoryParts, SubjectRecords, by_subject, ended, locks_of, words};
use super::search::Bound;
use super::{Finding, Judgement, judge_parts};
use crate::check::model::register::Act;
use crate::check::project::words_acts;
use crate::history::{Call, Flavour, History, Record, tag};
use crate::subject::{Subject, subject_path};

pub fn judge_close_to_open(history: &History, bound: Bound) -> Judgement {
    let mut parts = HistoryParts::default();
    let mut findings = Vec::new();
    let mut skipped = 0;
    for of in by_subject(history) {
        match of.subject {
            Subject::Lock(_) => locks_of(&of, &mut parts),
            Subject::Data(_) | Subject::Mapped(_) | Subject::Spliced(_) => {
                bytes(&of, &mut findings)
            }
            Subject::Names(_)
            | Subject::Log(_)
            | Subject::Attr(_)
            | Subject::HeldData(_)
            | Subject::HeldMapped(_)
            | Subject::HeldAttr(_)
            | Subject::HeldDir(_) => skipped += of.records.len(),
        }
    }
    let mut judgement = judge_parts(parts.parts, parts.permitted + skipped, bound);
    judgement.findings.extend(findings);
    judgement
}

/// When a record's descriptor was opened and closed.
struct Session {
    opened: u64,
    closed: u64,
}

/// A value that a word had, and may be seen.
struct WrittenValue<'a> {
    index: usize,
    record: &'a Record,
    value: u64,
    closed: u64,
}

impl WrittenValue<'_> {
    /// Whether nothing of the other can be there any more when this one is.
    fn overwrites(&self, other: &WrittenValue) -> bool {
        let after = |moment: u64| moment < self.record.start;
        let same_worker = self.record.worker == other.record.worker;
        after(other.closed) || (same_worker && after(other.record.end_or_never()))
    }
}

fn bytes(of: &SubjectRecords, findings: &mut Vec<Finding>) {
    let sessions = sessions(of);
    let words = words(of.records.iter().map(|(_, record)| *record));
    let mut puts: Vec<Vec<WrittenValue>> = words.iter().map(|_| Vec::new()).collect();
    let mut sees: Vec<Vec<(usize, &Record, u64, u64)>> = words.iter().map(|_| Vec::new()).collect();
    for ((index, record), session) in of.records.iter().zip(&sessions) {
        for (position, act) in words_acts(record, &words) {
            match act {
                Act::Put(value) => puts[position].push(WrittenValue {
                    index: *index,
                    record,
                    value,
                    closed: match ended(record) {
                        Ended::Answered => session.closed,
                        _ => u64::MAX,
                    },
                }),
                Act::See(value) if value != tag::BAD => {
                    sees[position].push((*index, record, session.opened, value));
                }
                Act::See(_) => {}
            }
        }
    }
    for ((word, puts), sees) in words.iter().zip(&puts).zip(&sees) {
        findings.extend(stale(of.subject, *word, puts, sees));
    }
}

/// The first read that shows what it must not.
fn stale(
    subject: Subject,
    word: u64,
    puts: &[WrittenValue],
    sees: &[(usize, &Record, u64, u64)],
) -> Option<Finding> {
    for (index, read, opened, value) in sees {
        let known = |put: &&WrittenValue| {
            put.closed < *opened
                || (put.record.worker == read.worker && put.record.end_or_never() < read.start)
        };
        let known: Vec<&WrittenValue> = puts.iter().filter(known).collect();
        let is_overwritten = |put: &WrittenValue| known.iter().any(|newer| newer.overwrites(put));
        let may_show = |put: &WrittenValue| {
            put.value == *value && put.record.start < read.end_or_never() && !is_overwritten(put)
        };
        let initial = *value == 0 && known.is_empty();
        if initial || puts.iter().any(may_show) {
            continue;
        }
        let newest = known.iter().max_by_key(|put| put.record.start);
        let mut records = vec![*index];
        records.extend(
            puts.iter()
                .find(|put| put.value == *value)
                .map(|put| put.index),
        );
        records.extend(newest.map(|put| put.index));
        records.sort_unstable();
        records.dedup();
        return Some(Finding {
            about: format!("bytes at {word} of {}", subject_path(subject)),
            fails: *index,
            records,
            before: String::new(),
        });
    }
    None
}

/// The session of each record, in their order. One that is still open at the end is closed never.
fn sessions(of: &SubjectRecords) -> Vec<Session> {
    let mut sessions: Vec<Session> = Vec::with_capacity(of.records.len());
    let mut opened: std::collections::BTreeMap<u16, u64> = Default::default();
    for (_, record) in &of.records {
        if record.call == Call::Open && ended(record) == Ended::Answered {
            opened.insert(record.worker, record.start);
        }
        sessions.push(match own(&record.call) {
            true => Session {
                opened: record.start,
                closed: record.end_or_never(),
            },
            false => Session {
                opened: opened.get(&record.worker).copied().unwrap_or(0),
                closed: u64::MAX,
            },
        });
    }
    let mut closed: std::collections::BTreeMap<u16, u64> = Default::default();
    for ((_, record), session) in of.records.iter().zip(&mut sessions).rev() {
        if record.call == Call::Close && ended(record) == Ended::Answered {
            closed.insert(record.worker, record.end_or_never());
        } else if record.call == Call::Open {
            closed.remove(&record.worker);
        } else if !own(&record.call) {
            session.closed = closed.get(&record.worker).copied().unwrap_or(u64::MAX);
        }
    }
    sessions
}

/// Whether the operation opens and closes by itself.
fn own(call: &Call) -> bool {
    match call {
        Call::Write { flavour, .. }
        | Call::Read { flavour, .. }
        | Call::Splice { flavour, .. }
        | Call::Size { flavour } => *flavour == Flavour::Fresh,
        Call::MapRead { .. } | Call::MapWrite { .. } => true,
        _ => false,
    }
}
