//! # check: decides whether a history is possible
//!
//! Owns   the models, the search, how a history is taken apart, how a finding is made small. Pure: a history in, a judgement out.
//! Never  reads a clock, touches a file, knows where a history is from; guesses.
//! Enter  at [`judge`].
//!
//! A history is taken apart into *parts* that are judged alone: projections on a smaller state (docs/verify.md). A part that
//! cannot be ordered proves that the whole cannot; the other way something may be missed, never invented.

mod close_to_open;
pub mod model;
mod overlap;
mod part;
mod project;
pub mod search;
mod shrink;

pub use close_to_open::judge_close_to_open;
pub use overlap::conflicts;
pub use part::{HistoryPart, PartError};
pub use project::{ATTRIBUTES, Certainty, certainty, parts};
pub use search::Bound;

use crate::history::History;

pub(crate) type Set<T> = hashbrown::HashSet<T, foldhash::fast::FixedState>;
pub(crate) type Map<K, V> = hashbrown::HashMap<K, V, foldhash::fast::FixedState>;

/// What a file system is held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// What a call has changed, every call sees that begins after it has returned
    #[default]
    Posix,
    /// Who opens a file sees what was written by those who had closed it
    CloseToOpen,
}

/// Why a history cannot have happened.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Finding {
    /// Its subject: "bytes at 4096 of data1".
    pub about: String,
    /// The record that no order explains, by its index in the history.
    pub fails: usize,
    /// The fewest records found that cannot have happened together, in order of their begin.
    pub records: Vec<usize>,
    /// The state before the first of them, where that matters.
    pub before: String,
}

/// The findings in a history.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    pub findings: Vec<Finding>,
    /// Records that take part in a part whose bound was reached.
    pub undecided: usize,
    /// Looks that the model permits to be anything (docs/verify.md, "What may differ").
    pub permitted: usize,
}

/// Judges a history. Findings come at most one a part, as small as could be made.
pub fn judge(history: &History, model: Model, bound: Bound) -> Judgement {
    if model == Model::CloseToOpen {
        return judge_close_to_open(history, bound);
    }
    let taken = parts(history);
    judge_parts(taken.parts, taken.permitted, bound)
}

fn judge_parts(parts: Vec<Box<dyn HistoryPart>>, permitted: usize, bound: Bound) -> Judgement {
    let mut judgement = Judgement {
        permitted,
        ..Judgement::default()
    };
    for part in parts {
        match part.judge(bound) {
            Ok(()) => {}
            Err(PartError::Undecided { records }) => judgement.undecided += records,
            Err(PartError::Found(finding)) => judgement.findings.push(finding),
        }
    }
    // The same operation is often wrong in many parts: all bytes of a write.
    judgement
        .findings
        .sort_by_key(|finding| (finding.records.len(), finding.fails));
    judgement
}
