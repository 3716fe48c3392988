//! # report: the findings and figures of a run, as text, JSON, page and script
//!
//! Owns   the figures of a run, findings with their records, how both are printed, drawn and saved.
//! Never  judges, or asks a worker.
//! Enter  at [`Run`].

mod html;
mod json;
mod script;
mod text;

pub use html::page;
pub use script::{Script, read_script};

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::check::Model;
use crate::history::Record;

/// Everything there is to say of a run.
#[derive(Clone, Debug)]
pub struct Run {
    pub mounts: Vec<String>,
    pub mount_of: Vec<u16>,
    pub model: Model,
    pub seed: u64,
    pub figures: Figures,
    pub found: Vec<ReportedFinding>,
    /// Why it ended before its time, if that was no finding.
    pub cut_short: Option<String>,
    /// Where findings were saved.
    pub saved: Vec<PathBuf>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    pub seconds: f64,
    pub rounds: u32,
    pub operations: usize,
    pub operations_per_second: f64,
    /// How many of each kind.
    pub kinds: BTreeMap<String, usize>,
    /// Operations that ran beside one of another worker that they conflict with.
    pub conflicting: usize,
    /// Operations without an answer, or with an error that does not say whether they happened.
    pub unanswered: usize,
    /// Kinds that the file system does not know, and how often they were asked.
    pub unsupported: BTreeMap<String, usize>,
    /// Looks that the model permits to be anything.
    pub permitted: usize,
    /// Operations in parts that could not be decided within the bound.
    pub undecided: usize,
    pub faults: usize,
    pub faults_failed: usize,
    /// The longest wait for an answer, and for what.
    pub longest_ms: f64,
    pub longest: String,
    pub judging_seconds: f64,
    /// How unsure the clocks of other hosts were, at most.
    pub clock_uncertain_us: f64,
}

/// Something that cannot have happened on a file system that agrees with itself, or that hangs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReportedFinding {
    pub what: FindingKind,
    pub about: String,
    pub round: u32,
    /// In order of their begin.
    pub records: Vec<Record>,
    /// Which of them fails.
    pub fails: usize,
    /// The state before the first of them.
    pub before: String,
    /// How many of how many replays failed again, and whether they were of these records alone.
    pub replayed: Option<Replayed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    Disagreement,
    Hang,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Replayed {
    pub failed: u32,
    pub of: u32,
    /// These records alone, or with those that went before on the same thing.
    pub alone: bool,
}

/// A run's end, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Agreed,
    Disagreed,
    CouldNotRun,
}

impl Run {
    pub fn verdict(&self) -> Verdict {
        match (self.found.is_empty(), &self.cut_short) {
            (false, _) => Verdict::Disagreed,
            (true, None) => Verdict::Agreed,
            (true, Some(_)) => Verdict::CouldNotRun,
        }
    }

    /// The mount that a worker works on, by its short name: A, B, …
    pub fn mount_name(&self, worker: u16) -> String {
        mount_letter(self.mount_of.get(usize::from(worker)).copied())
    }
}

/// A, B, … Z, then by number.
pub fn mount_letter(mount: Option<u16>) -> String {
    match mount {
        Some(mount @ 0..26) => char::from(b'A' + mount as u8).to_string(),
        Some(mount) => format!("mount{mount}"),
        None => "?".into(),
    }
}
