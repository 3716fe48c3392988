//! Bytes of a file: a register for each stretch that all operations treat alike.
//!
//! Judged is the first word of each stretch between two offsets at which an operation begins or ends, and, where a read found
//! several writers within a stretch, the words where they meet. A word is written at one moment, whatever the file system
//! does about longer writes; so nothing is demanded of them as a whole.

use std::collections::{BTreeMap, BTreeSet};

use super::interval_index::IntervalIndex;
use super::{Ended, HistoryParts, SubjectRecords, ended, timed};
use crate::check::model::register::{Act, Register};
use crate::check::part::StatePart;
use crate::check::search::Timed;
use crate::history::{Allocate, Answer, Call, Record, tag};
use crate::subject::{Range, WHOLE, subject_path};

/// Words that are judged in a stretch besides its first.
const MEETINGS_MAX: usize = 8;

pub(super) fn add(of: &SubjectRecords, parts: &mut HistoryParts) {
    let Ok(look) =
        of.initial_look(|record| matches!(record.call, Call::Read { range, .. } if range == WHOLE))
    else {
        parts.permitted += of.records.len();
        return;
    };
    let words = words(of.records.iter().map(|(_, record)| *record));
    let mut acts: Vec<Vec<Timed<Act>>> = words.iter().map(|_| Vec::new()).collect();
    let written = IntervalIndex::of(of.records.iter().map(|(_, record)| *record), changed);
    for (index, record) in &of.records {
        for (position, mut act) in acts_of(record, &words) {
            if look == Some(*index) {
                act = act.defining();
            }
            if act == Act::See(tag::BAD) && being_written(&written, record, words[position]) {
                parts.permitted += 1;
                continue;
            }
            acts[position].push(timed(act, *index, record));
        }
    }
    for (word, acts) in words.into_iter().zip(acts) {
        if acts.iter().any(|act| matches!(act.act, Act::See(_))) {
            parts.parts.push(Box::new(StatePart {
                about: format!("bytes at {word} of {}", subject_path(of.subject)),
                spec: Register,
                initial: 0,
                acts,
            }));
        }
    }
}

/// Offsets of the words that stand for all.
pub(in crate::check) fn words<'a>(records: impl Iterator<Item = &'a Record> + Clone) -> Vec<u64> {
    let mut borders = BTreeSet::from([WHOLE.from]);
    for record in records.clone() {
        match record.call {
            Call::Write { range, .. }
            | Call::MapWrite { range, .. }
            | Call::Allocate { range, .. } => borders.extend([range.from, range.to]),
            Call::Truncate { to } => drop(borders.insert(to)),
            _ => {}
        }
    }
    let mut meetings: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for record in records {
        let Answer::Bytes { runs, .. } = &record.answer else {
            continue;
        };
        let ends = runs.iter().map(|(end, _)| end - end % tag::WORD);
        for meeting in ends.filter(|end| !borders.contains(end)) {
            let stretch = borders.range(..meeting).next_back().copied().unwrap_or(0);
            let known = meetings.entry(stretch).or_default();
            if known.len() < MEETINGS_MAX {
                known.insert(meeting);
            }
        }
    }
    borders.extend(meetings.into_values().flatten());
    borders.into_iter().collect()
}

/// The act of a record on each word, by the word's place among `words`.
pub(in crate::check) fn acts_of(record: &Record, words: &[u64]) -> Vec<(usize, Act)> {
    let within = |from: u64, to: u64| {
        words.partition_point(|word| *word < from)..words.partition_point(|word| *word < to)
    };
    let put = |from, to, tag| within(from, to).map(|at| (at, Act::Put(tag))).collect();
    if !matches!(ended(record), Ended::Answered | Ended::Unknown) {
        return Vec::new();
    }
    match (&record.call, &record.answer) {
        (Call::Write { range, tag, .. } | Call::MapWrite { range, tag }, _) => {
            put(range.from, range.to, *tag)
        }
        (Call::Truncate { to }, _) => put(*to, u64::MAX, 0),
        (
            Call::Allocate {
                range,
                how: Allocate::Punch | Allocate::Zero,
            },
            _,
        ) => put(range.from, range.to, 0),
        (
            Call::Read { range, .. } | Call::Splice { range, .. } | Call::MapRead { range },
            Answer::Bytes { runs, .. },
        ) => {
            let mut from = range.from;
            let mut acts = Vec::new();
            for (end, tag) in runs {
                acts.extend(within(from, *end).map(|at| (at, Act::See(*tag))));
                from = *end;
            }
            acts
        }
        _ => Vec::new(),
    }
}

/// Which bytes a record changes.
fn changed(record: &Record) -> Option<Range> {
    match record.call {
        Call::Write { range, .. } | Call::MapWrite { range, .. } | Call::Allocate { range, .. } => {
            Some(range)
        }
        Call::Truncate { to } => Some(Range {
            from: to,
            to: u64::MAX,
        }),
        _ => None,
    }
}

/// Whether a word may be half written while this read looks at it.
fn being_written(written: &IntervalIndex<Range>, read: &Record, word: u64) -> bool {
    written
        .beside(read)
        .any(|range| (range.from..range.to).contains(&word))
}
