//! What servers tell the metadata server about their targets, and what clients ask it about the cluster.

use crate::data::Space;
use crate::ids::{
    ClusterId, Incarnation, MapEpoch, OstId, OstLife, OwnerEpoch, Seq, SessionId, VirtualShard,
};
use crate::refusal::Refusal;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Request {
    /// What object servers said of themselves before `Report`. Refused: it does not say what a restored store is known by.
    Here {
        /// Where clients and the metadata server reach it: "host:port".
        address: String,
        targets: Vec<TargetWord>,
    },
    /// Which targets there are and where. Answered by `Map`.
    Map,
    /// What runs at the server that is asked. Answered by `Status`.
    Status,
    /// A target is about to be made, with this incarnation: asked twice, the answer is the same. Answered by `Admitted`.
    Admit { incarnation: Incarnation },
    /// An object server's report on its targets, when it starts and every second after. Answered by `Reported`.
    Report(Report),
    /// Which lives of targets are over (`data::Answer::DoneIn`): their server asks when it has opened them, before it serves, and
    /// tells when a sync failed. Answered by `Lives`.
    Lives { targets: Vec<TargetLife> },
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Where clients and the metadata server reach it: "host:port".
    pub address: String,
    pub targets: Vec<TargetReport>,
    /// It has stopped its targets and ends: they may be served from elsewhere at once.
    pub leaves: bool,
}

/// One target, as its server tells of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TargetReport {
    pub ost: OstId,
    /// None: it could not be opened, for this reason.
    pub open: Result<OpenReport, String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenReport {
    pub identity: TargetIdentity,
    /// None: its disk did not say in time.
    pub space: Option<Space>,
    /// If it was asked for (`TargetVerdict::Tell`).
    pub holdings: Option<Holdings>,
}

/// Who an open target is, and which owner of the metadata it has heard last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TargetIdentity {
    pub cluster: ClusterId,
    pub incarnation: Incarnation,
    /// As its superblock says: of an opening that is not adopted, what it found there.
    pub stamp: u64,
    pub run: u64,
    /// The number of this opening, made at random. Equal to `run` from its adoption on.
    pub opening: u64,
    /// It was stopped in order and not adopted since.
    pub stopped: bool,
    pub owner: OwnerMark,
}

impl TargetIdentity {
    /// Whether the superblock was written by this opening.
    pub fn is_adopted(&self) -> bool {
        self.run == self.opening
    }
}

/// One start of a metadata server, and how far its log was durable when it said so. Targets remember the last they heard of;
/// a metadata store that does not know it is an older copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OwnerMark {
    pub epoch: OwnerEpoch,
    /// Made at random at each start: tells an owner from a restored one of the same epoch.
    pub run: u64,
    pub durable: Seq,
}

impl OwnerMark {
    pub fn is_same_start(&self, other: &OwnerMark) -> bool {
        (self.epoch, self.run) == (other.epoch, other.run)
    }
}

/// What a target holds, as far as it matters for what an older metadata store would lose.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Holdings {
    /// Objects that owners after `since` had made, and the newest date of one.
    pub since: OwnerEpoch,
    pub newer: u64,
    pub newest: Option<Timestamp>,
    /// For each virtual shard an inode counter above those of all its objects.
    pub numbers: Vec<(VirtualShard, u64)>,
}

/// In which life a target is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TargetLife {
    pub ost: OstId,
    pub incarnation: Incarnation,
    pub life: OstLife,
    /// A sync failed in it: what was written and not synced counts as lost.
    pub over: bool,
}

/// One target, as its server tells of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TargetWord {
    pub ost: OstId,
    /// None: it could not be opened, for this reason.
    pub open: Result<OpenTarget, String>,
}

/// As `Here` said it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenTarget {
    pub cluster: ClusterId,
    pub incarnation: Incarnation,
    pub stamp: u64,
    pub run: u64,
    pub space: Space,
}

pub type Reply = Result<Answer, Refusal>;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// Targets among those told of that are not who they were, with the reason: nobody may believe their bytes.
    Heard {
        map_epoch: MapEpoch,
        refused: Vec<(OstId, String)>,
        /// How capabilities are verified; None where none are given.
        seals: Option<Seals>,
    },
    Map(Map),
    Admitted {
        ost: OstId,
    },
    /// For people, and as one JSON object.
    Status {
        text: String,
        json: String,
    },
    Reported {
        map_epoch: MapEpoch,
        /// What each target of the report is to do.
        verdicts: Vec<(OstId, TargetVerdict)>,
        /// Who answers. A target records it before it believes anything else of this answer.
        owner: OwnerMark,
        /// How capabilities are verified; None where none are given.
        seals: Option<Seals>,
    },
    /// Of those targets asked of that had one: the last life that is over.
    Lives {
        over: Vec<(OstId, OstLife)>,
    },
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TargetVerdict {
    /// It is who it was: it writes this opening into its superblock, and reports again. It serves nothing yet.
    Adopt,
    /// It serves.
    Serve,
    /// It serves, and raises its stamp at once: a copy of it was opened elsewhere.
    RaiseStamp,
    /// It serves nothing and keeps reporting; the reason is for people.
    Wait(String),
    /// It serves nothing and tells what it holds that is newer than this owner.
    Tell { since: OwnerEpoch },
    /// It is not who it was: nobody may believe its bytes.
    Refused(String),
}

/// What an object server must know to believe capabilities of this owner (`capability`), for its own targets alone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Seals {
    pub epoch: OwnerEpoch,
    /// Milliseconds of the owner's boot clock, when this was said.
    pub now: u64,
    /// From these the keys are made, with the cluster's key.
    pub pass: Share,
    pub osts: Vec<(OstId, Share)>,
    /// Sessions that ended and whose passes may count still: they are believed no more.
    pub ended: Vec<SessionId>,
}

/// Half of a key: the other half is the cluster's key, which is never told.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share(pub [u8; 32]);

impl std::fmt::Debug for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Share")
    }
}

/// Where the targets are. It changes rarely; every metadata reply names the newest epoch.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Map {
    pub epoch: MapEpoch,
    /// In ascending order of `ost`.
    pub targets: Vec<Place>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Place {
    pub ost: OstId,
    /// Empty: where the metadata server is. None: its server has not been heard of since the metadata server started.
    pub address: Option<String>,
}
