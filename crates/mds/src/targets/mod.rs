//! # targets: the OSTs as the metadata server knows them
//!
//! Owns   which targets there are, who each was when last seen, its space, and whether files may be laid out on it.
//! Never  touches an object by itself, or forgets a target's incarnation.
//! Enter  at `Targets::hear` (what a target says of itself), `Targets::call`, `Targets::placement`.

mod judge;
mod space;

pub use judge::TargetInfo;

use crate::limits::DEADLINE;
use gupfs_names::KnownTarget;
use gupfs_proto::data::{self, Answer};
use gupfs_proto::meta::TargetState;
use gupfs_proto::{ClusterId, Incarnation, MapEpoch, OstId, Refusal, SessionId};
use gupfs_rpc::Peer;
use gupfs_world::Clock;
use judge::Verdict;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The session number under which the metadata server itself asks OSTs; clients' begin above it.
pub const MDS_SESSION: SessionId = SessionId(0);

pub type OstPeer = Peer<data::Request, data::Reply>;

/// One target as the binary hands it over.
pub struct Target {
    pub ost: OstId,
    pub peer: OstPeer,
    /// What its admin side says of it, or why it says nothing.
    pub told: Result<TargetInfo, String>,
}

pub struct Targets {
    cluster: ClusterId,
    clock: Clock,
    /// The first word of a target is believed, whatever was remembered.
    accept_loss: bool,
    peers: BTreeMap<OstId, OstPeer>,
    list: Mutex<BTreeMap<OstId, State>>,
}

struct State {
    remembered: Option<KnownTarget>,
    standing: Standing,
    space: Result<data::Space, String>,
}

enum Standing {
    /// It is who it was.
    Good,
    /// It cannot be asked.
    Down(String),
    /// It is not who it was: its bytes must not be believed.
    Refused(String),
}

/// A target as `status` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TargetStatus {
    pub ost: OstId,
    /// New files are laid out on it.
    pub usable: bool,
    /// It is not who it was and waits for an operator.
    pub refused: bool,
    pub why_not: Option<String>,
    pub incarnation: Option<Incarnation>,
    /// What it told last.
    pub stamp: Option<u64>,
    pub total: u64,
    pub available: u64,
    pub objects: u64,
}

impl Targets {
    /// `remembered` is what the metadata store says of earlier times; a target in it that has no peer now is shown as absent.
    pub fn new(
        cluster: ClusterId,
        clock: Clock,
        accept_loss: bool,
        peers: BTreeMap<OstId, OstPeer>,
        remembered: BTreeMap<OstId, KnownTarget>,
    ) -> Targets {
        let known = peers.keys().chain(remembered.keys());
        let list = known
            .map(|ost| {
                let state = State {
                    remembered: remembered.get(ost).copied(),
                    standing: Standing::Down(if peers.contains_key(ost) {
                        "it has not said yet who it is".into()
                    } else {
                        "it is not part of this start".into()
                    }),
                    space: Err("its space is not known yet".into()),
                };
                (*ost, state)
            })
            .collect();
        Targets {
            cluster,
            clock,
            accept_loss,
            peers,
            list: Mutex::new(list),
        }
    }

    /// Takes a target's word. Returns what is to be remembered of it from now on, if that changed: the caller commits it.
    ///
    /// # Errors
    /// `TargetDown` with the reason if the target is not who it was, or unknown.
    pub fn hear(
        &self,
        ost: OstId,
        told: Result<TargetInfo, String>,
    ) -> Result<Option<KnownTarget>, Refusal> {
        let mut list = self.list.lock();
        let Some(state) = list.get_mut(&ost) else {
            return Err(down(ost, "no target of this number belongs to this start"));
        };
        let info = match told {
            Ok(info) => info,
            Err(why) => {
                state.standing = Standing::Down(why.clone());
                return Err(down(ost, why));
            }
        };
        // Loss is accepted once: whoever goes back while we run was not restored by an operator who knew.
        let accept = self.accept_loss && !matches!(state.standing, Standing::Good);
        match judge::judge(self.cluster, state.remembered, &info, accept) {
            Verdict::Good(remember) => {
                state.standing = Standing::Good;
                state.remembered = remember.or(state.remembered);
                Ok(remember)
            }
            Verdict::Refused(why) => {
                state.standing = Standing::Refused(why.clone());
                Err(down(ost, why))
            }
        }
    }

    /// Asks a target. It is not asked at all unless it is who it was.
    ///
    /// # Errors
    /// What the target refuses with; `TargetDown` if it cannot be asked, `TimedOut` if it does not answer.
    pub async fn call(&self, ost: OstId, op: data::Op) -> data::Reply {
        let peer = self.asked(ost)?;
        let request = data::Request {
            session: MDS_SESSION,
            map_epoch: MapEpoch(1),
            job: 0,
            ost,
            op,
        };
        tokio::select! {
            biased;
            reply = peer.call(request) => reply,
            () = self.clock.sleep(DEADLINE) => Err(Refusal::TimedOut(format!("ost{ost}"))),
        }
    }

    /// The peer of a target that may be asked.
    fn asked(&self, ost: OstId) -> Result<&OstPeer, Refusal> {
        match self.list.lock().get(&ost).map(|state| &state.standing) {
            Some(Standing::Good) => {}
            Some(Standing::Down(why) | Standing::Refused(why)) => return Err(down(ost, why)),
            None => return Err(down(ost, "no target of this number is known")),
        }
        self.peers
            .get(&ost)
            .ok_or_else(|| down(ost, "it is not part of this start"))
    }

    /// Those of this start.
    pub fn all(&self) -> Vec<OstId> {
        self.peers.keys().copied().collect()
    }

    /// Whether a target answers at all now.
    pub fn is_up(&self, ost: OstId) -> bool {
        self.asked(ost).is_ok()
    }

    /// Targets that are not who they were, with the reason: nobody should believe their bytes.
    pub fn refused(&self) -> Vec<(OstId, String)> {
        self.list
            .lock()
            .iter()
            .filter_map(|(ost, state)| match &state.standing {
                Standing::Refused(why) => Some((*ost, why.clone())),
                _ => None,
            })
            .collect()
    }

    /// What placement chooses among, in ascending order. `free` is what writers may still take.
    pub fn placement(&self) -> Arc<[TargetState]> {
        self.status()
            .into_iter()
            .map(|target| TargetState {
                ost: target.ost,
                usable: target.usable,
                why_not: target.why_not,
                total: target.total,
                free: target.available,
            })
            .collect()
    }

    pub fn status(&self) -> Vec<TargetStatus> {
        self.list
            .lock()
            .iter()
            .map(|(ost, state)| {
                let why_not = state.why_not();
                let space = state.space.as_ref().copied().unwrap_or_default();
                TargetStatus {
                    ost: *ost,
                    usable: why_not.is_none(),
                    refused: matches!(state.standing, Standing::Refused(_)),
                    why_not,
                    incarnation: state.remembered.map(|r| r.incarnation),
                    stamp: state.remembered.map(|r| r.stamp),
                    total: space.total,
                    available: space.available,
                    objects: space.objects,
                }
            })
            .collect()
    }
}

impl State {
    /// Why no new file is laid out here.
    fn why_not(&self) -> Option<String> {
        match (&self.standing, &self.space) {
            (Standing::Down(why) | Standing::Refused(why), _) => Some(why.clone()),
            (Standing::Good, Err(why)) => Some(why.clone()),
            (Standing::Good, Ok(space)) if space.available == 0 => Some("it is full".into()),
            (Standing::Good, Ok(_)) => None,
        }
    }
}

fn down(ost: OstId, why: impl Into<String>) -> Refusal {
    Refusal::TargetDown {
        ost,
        why: why.into(),
    }
}

/// An answer that no target gives to this question.
pub fn unexpected(ost: OstId, answer: &Answer) -> Refusal {
    down(
        ost,
        format!("it gave an answer to another question: {answer:?}"),
    )
}
