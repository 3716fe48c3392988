//! How an administrator has the use of the targets evened out, and how far that is.

use crate::ids::OstId;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RebalanceChange {
    /// Also changes the settings of a rebalance that is going on. `rate`: bytes that may be copied a second, 0: any number. `within`: it ends when
    /// no volume's use differs more from the mean, in percent points. None: as before.
    Start {
        rate: Option<u64>,
        within: Option<u8>,
    },
    /// Nothing is copied any more.
    Pause,
    Resume,
    /// What was copied stays where it is.
    Cancel,
    Ask,
}

/// How a rebalance ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RebalanceOutcome {
    pub at: Timestamp,
    /// The use of each volume was near enough to the mean.
    pub is_even: bool,
    /// Why not, or which targets it could not include.
    pub why: Option<String>,
}

/// The rebalance that is going on, or the last one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RebalanceState {
    /// None: there was none.
    pub since: Option<Timestamp>,
    /// None: it is going on.
    pub outcome: Option<RebalanceOutcome>,
    pub rate: Option<u64>,
    pub within: u8,
    pub is_paused: bool,
    /// Since the start of the metadata server: files of which a part got other targets, the bytes that left the fuller volumes so, and all bytes
    /// that were copied for it.
    pub files_moved: u64,
    pub bytes_moved: u64,
    pub bytes_copied: u64,
    /// The walk that is under way has examined so many inodes; None between walks.
    pub inodes_examined: Option<u64>,
    /// Bytes that have still to leave the fuller volumes, and the time for that at the rate so far; None: not known.
    pub bytes_left: Option<u64>,
    pub seconds_left: Option<u64>,
    /// Files that the last walk had to leave where they are.
    pub files_left: u64,
    /// What it waits for, or why it has left one of the files.
    pub why: Option<String>,
    /// The use of each volume, as far as it is known.
    pub volumes: Vec<VolumeUse>,
}

/// The use of one file system of an object server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VolumeUse {
    /// The targets on it.
    pub osts: Vec<OstId>,
    pub total: u64,
    pub used: u64,
}

impl RebalanceState {
    pub fn is_going_on(&self) -> bool {
        self.since.is_some() && self.outcome.is_none()
    }
}
