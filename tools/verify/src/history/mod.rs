//! # history: operations, their times and their answers
//!
//! Owns   operations and their answers as values, the tags that written bytes carry, the history of a round.
//! Never  does any of it, reads a clock, judges.
//! Enter  at [`Record`] and [`History`].

mod call;
mod show;
pub mod tag;

pub use call::{Allocate, Answer, Call, Flavour, Kind, Rename, SpliceCall};

use serde::{Deserialize, Serialize};

use crate::subject::Subject;

/// Nanoseconds on the clock of the coordinator's host; only differences and order mean anything.
pub type Nanos = u64;

/// One operation of one worker: from before the system call to after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub worker: u16,
    /// Which operation of its worker in the run.
    pub number: u32,
    pub subject: Subject,
    pub call: Call,
    pub start: Nanos,
    /// None: there was no answer. It may have happened, or not, or will.
    pub end: Option<Nanos>,
    pub answer: Answer,
}

/// A round: everything that was done in one fresh directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Which mount each worker works on, by number.
    pub mount_of: Vec<u16>,
    /// By start.
    pub records: Vec<Record>,
}

impl History {
    /// Puts records of many workers together.
    pub fn new(mount_of: Vec<u16>, mut records: Vec<Record>) -> History {
        records.sort_by_key(|record| (record.start, record.worker, record.number));
        History { mount_of, records }
    }
}

impl Record {
    /// An operation without an answer counts as running for ever.
    pub fn end_or_never(&self) -> Nanos {
        self.end.unwrap_or(Nanos::MAX)
    }

    pub fn overlaps(&self, other: &Record) -> bool {
        self.start <= other.end_or_never() && other.start <= self.end_or_never()
    }
}
