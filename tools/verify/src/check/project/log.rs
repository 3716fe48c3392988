//! A log: the order of its records.
//!
//! A read beside a cut may be of two minds, on every Linux file system: it is left out.

use super::interval_index::IntervalIndex;
use super::{Ended, HistoryParts, SubjectRecords, ended, timed};
use crate::check::model::log::{Act, Log};
use crate::check::part::StatePart;
use crate::history::{Answer, Call};
use crate::subject::subject_path;

pub(super) fn add(of: &SubjectRecords, parts: &mut HistoryParts) {
    let cuts = IntervalIndex::of(of.records.iter().map(|(_, record)| *record), |record| {
        (record.call == Call::CutLog).then_some(())
    });
    let mut acts = Vec::new();
    for (index, record) in &of.records {
        let beside_cut = || cuts.beside(record).next().is_some();
        let act = match (&record.call, &record.answer) {
            _ if !matches!(ended(record), Ended::Answered | Ended::Unknown) => continue,
            (Call::Append { tag }, _) => Act::Append(*tag),
            (Call::CutLog, _) => Act::Empty,
            (Call::ReadLog, Answer::Log(_)) if beside_cut() => {
                parts.permitted += 1;
                continue;
            }
            (Call::ReadLog, Answer::Log(tags)) => Act::Is(tags.clone()),
            (Call::LogSize, Answer::Size(size)) => Act::Records(records(*size)),
            _ => continue,
        };
        acts.push(timed(act, *index, record));
    }
    parts.parts.push(Box::new(StatePart {
        about: format!("the records of {}", subject_path(of.subject)),
        spec: Log::of(acts.iter().map(|timed| &timed.act)),
        initial: Vec::new(),
        acts,
    }));
}

/// A size that is no multiple fits no state.
fn records(size: u64) -> usize {
    match size % crate::subject::LOG_RECORD {
        0 => (size / crate::subject::LOG_RECORD) as usize,
        _ => usize::MAX,
    }
}
