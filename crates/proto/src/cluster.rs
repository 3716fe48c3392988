//! What servers tell the metadata server about their targets, and what clients ask it about the cluster.

use crate::data::Space;
use crate::ids::{ClusterId, Incarnation, MapEpoch, OstId, OstLife, OwnerEpoch, SessionId};
use crate::refusal::Refusal;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Request {
    /// An object server's word on itself, when it starts and every second after. Answered by `Heard`.
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
    /// Which lives of targets are over (`data::Answer::DoneIn`): their server asks when it has opened them, before it serves, and
    /// tells when a sync failed. Answered by `Lives`.
    Lives { targets: Vec<TargetLife> },
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

/// Who an open target is (`mds::targets::TargetInfo`), and its room.
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
    /// Of those targets asked of that had one: the last life that is over.
    Lives {
        over: Vec<(OstId, OstLife)>,
    },
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
