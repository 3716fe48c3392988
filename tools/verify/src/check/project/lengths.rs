//! The size of a file.
//!
//! Linux lets a file grow page by page while it is written: a size inside of a write under way says nothing. A short read finds
//! the end by looking more than once: it is two acts.

use super::interval_index::IntervalIndex;
use super::{Ended, HistoryParts, SubjectRecords, ended, timed};
use crate::check::model::lengths::{Act, Lengths};
use crate::check::part::StatePart;
use crate::history::{Allocate, Answer, Call, Record};
use crate::subject::{CONSTANT_SIZE, Subject, subject_path};

pub(super) fn add(of: &SubjectRecords, parts: &mut HistoryParts) {
    let Ok(look) = of.initial_look(|record| matches!(record.call, Call::Size { .. })) else {
        parts.permitted += of.records.len();
        return;
    };
    let growing = IntervalIndex::of(of.records.iter().map(|(_, record)| *record), grows);
    let mut acts = Vec::new();
    for (index, record) in &of.records {
        for mut act in acts_of(record) {
            if look == Some(*index)
                && let Act::Is(size) = act
            {
                act = Act::Set(size);
            }
            let seen = match act {
                Act::Is(seen) | Act::AtLeast(seen) | Act::AtMost(seen) => Some(seen),
                Act::Extend(_) | Act::Set(_) => None,
            };
            let inside = |seen: u64| {
                growing
                    .beside(record)
                    .any(|(from, to)| *from < seen && seen < *to)
            };
            match seen.is_some_and(inside) {
                true => parts.permitted += 1,
                false => acts.push(timed(act, *index, record)),
            }
        }
    }
    parts.parts.push(Box::new(StatePart {
        about: format!("the size of {}", subject_path(of.subject)),
        spec: Lengths,
        initial: match of.subject {
            Subject::Mapped(_) | Subject::Spliced(_) => CONSTANT_SIZE,
            _ => 0,
        },
        acts,
    }));
}

/// From where to where a file may be growing.
fn grows(record: &Record) -> Option<(u64, u64)> {
    match record.call {
        Call::Write { range, .. } => Some((range.from, range.to)),
        Call::Allocate {
            range,
            how: Allocate::Plain | Allocate::Zero,
        } => Some((0, range.to)),
        _ => None,
    }
}

fn acts_of(record: &Record) -> Vec<Act> {
    if !matches!(ended(record), Ended::Answered | Ended::Unknown) {
        return Vec::new();
    }
    match (&record.call, &record.answer) {
        (Call::Truncate { to }, _) => vec![Act::Set(*to)],
        (Call::Size { .. }, Answer::Size(size)) => vec![Act::Is(*size)],
        (Call::Read { range, .. } | Call::Splice { range, .. }, Answer::Bytes { count, .. }) => {
            let end = range.from + count;
            let mut acts = Vec::new();
            if *count > 0 {
                acts.push(Act::AtLeast(end));
            }
            if end < range.to {
                acts.push(Act::AtMost(end));
            }
            acts
        }
        _ => grows(record)
            .map(|(_, to)| Act::Extend(to))
            .into_iter()
            .collect(),
    }
}
