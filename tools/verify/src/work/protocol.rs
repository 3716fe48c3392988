//! Orders to a worker, and what it reports.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::history::{Nanos, Record};
use crate::mix::Mix;

/// An order to a worker. Each is answered by [`Report::Finished`] or [`Report::Unable`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// The first order: the worker's number, and the directory of the run on its mount.
    Be {
        worker: u16,
        directory: PathBuf,
    },
    /// Answered by [`Report::Clock`].
    Clock,
    MakeDirectory,
    /// Is the directory of the run there? Answered by [`Report::Found`].
    Probe,
    /// Make the round's directory and what every round begins with.
    Furnish {
        round: u32,
    },
    /// Make what is held over rounds, in the directory of the run.
    FurnishHeld,
    /// Open it, and go into its directory; map a file too.
    Hold {
        mapped: bool,
    },
    /// A look at everything that is held, before the others begin.
    LookAtHeld {
        round: u32,
    },
    /// Close it, and leave its directory.
    Release,
    Work(RoundPlan),
    /// A look at everything, when all have finished.
    LookAround {
        round: u32,
    },
    /// One operation of a history that is played again.
    Do {
        round: u32,
        record: Box<Record>,
    },
    /// Remove the round's directory.
    Clean {
        round: u32,
    },
    RemoveDirectory,
}

/// A round's work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RoundPlan {
    pub round: u32,
    pub seed: u64,
    pub mix: Mix,
    /// When it begins and how long it lasts, by this worker's clock.
    pub start: Nanos,
    pub length: Nanos,
    /// All work on one subject at a time, for this long.
    pub turn: Nanos,
    /// Operations of one worker in a turn.
    pub burst: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Report {
    Clock(Nanos),
    /// The number of the file that was asked for; None if there is none.
    Found(Option<u64>),
    Did(Vec<Record>),
    Doing(Box<Record>),
    Finished,
    /// It cannot go on, for this reason.
    Unable(String),
}
