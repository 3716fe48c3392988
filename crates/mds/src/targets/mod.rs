//! # targets: the OSTs as the metadata server knows them
//!
//! Owns   which targets there are, who each was when last seen, its space, and whether files may be laid out on it.
//! Never  touches an object by itself, or forgets a target's incarnation.
//! Enter  at `Targets::near` and `Targets::report` (what a target says of itself), `Targets::call`, `Targets::placement`.

mod admin;
mod judge;
mod near;
mod remote;
mod space;

pub use admin::{Admin, Told};
pub use judge::Ground;
pub use remote::Dial;

pub(crate) use judge::knows_more;
pub(crate) use near::Near;
pub(crate) use remote::Heard;

use crate::limits::{DEADLINE, NOT_HEARD_YET};
use crate::permits::Permits;
use gupfs_namespace::KnownTarget;
use gupfs_platform::{BootTime, Clock};
use gupfs_proto::capability::{Fault, Warrant};
use gupfs_proto::cluster::OwnerMark;
use gupfs_proto::data::{self, Answer};
use gupfs_proto::meta::TargetState;
use gupfs_proto::{Incarnation, OstId, Refusal, SessionId};
use gupfs_rpc::Peer;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use tokio::sync::Notify;

/// The session number under which the metadata server itself asks OSTs; clients' begin above it.
pub const MDS_SESSION: SessionId = SessionId(0);

pub type OstPeer = Peer<data::Request, data::Reply>;

/// One target as the binary hands it over.
#[derive(Clone)]
pub struct Target {
    pub ost: OstId,
    pub peer: OstPeer,
    /// Its admin side, or why it has none.
    pub admin: Result<Arc<dyn Admin>, String>,
}

pub struct Targets {
    ground: Ground,
    clock: Clock,
    started: BootTime,
    /// How servers elsewhere are reached; None when all targets are served in this process.
    dial: Option<Arc<dyn Dial>>,
    /// By what right we and others ask them; None where nobody asks for it.
    permits: Option<Permits>,
    list: Mutex<BTreeMap<OstId, State>>,
    /// Rises whenever a target is somewhere else than it was.
    epoch: AtomicU64,
    /// A target's standing changed.
    changed: Notify,
    /// Their servers are heard from here on.
    listens: AtomicBool,
}

struct State {
    peer: Option<OstPeer>,
    /// Where it is served, and when its server was last heard of; None for one of this process.
    far: Option<Far>,
    remembered: Option<KnownTarget>,
    /// What is remembered survives a power cut, as far as it tells who the target is.
    is_kept: bool,
    /// Which opening was believed last, of those served elsewhere.
    speaker: Option<Speaker>,
    standing: Standing,
    space: Result<data::Space, UnknownSpace>,
}

/// Why it is not known how much room a target has. Unknown is not full.
#[derive(Clone, Debug)]
enum UnknownSpace {
    /// It may be told any moment.
    NotYet(String),
    Failed(String),
}

impl UnknownSpace {
    fn untold() -> UnknownSpace {
        UnknownSpace::NotYet("its space is not known yet".into())
    }

    fn why(&self) -> &str {
        match self {
            UnknownSpace::NotYet(why) | UnknownSpace::Failed(why) => why,
        }
    }
}

struct Speaker {
    opening: u64,
    address: String,
    heard: BootTime,
    /// Another opening of the target was heard of meanwhile.
    is_contended: bool,
}

struct Far {
    address: String,
    heard: BootTime,
}

enum Standing {
    /// It is who it was.
    Good,
    /// It is served elsewhere, and its server has not said yet that it serves it: whoever needs it waits.
    Expected(String),
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
    /// Where its server is; None for one of this process, and before it was heard of.
    pub address: Option<String>,
    pub incarnation: Option<Incarnation>,
    /// What it told last.
    pub stamp: Option<u64>,
    pub total: u64,
    pub available: u64,
    pub objects: u64,
}

impl Targets {
    /// `remembered` is what the metadata store says of earlier times. A target in it that has no peer now is expected to be
    /// served elsewhere, if there is a way to reach others; else it is shown as absent.
    pub fn new(
        ground: Ground,
        clock: Clock,
        dial: Option<Arc<dyn Dial>>,
        peers: BTreeMap<OstId, OstPeer>,
        remembered: BTreeMap<OstId, KnownTarget>,
    ) -> Targets {
        let known: BTreeSet<OstId> = peers.keys().chain(remembered.keys()).copied().collect();
        let list = known
            .into_iter()
            .map(|ost| {
                let peer = peers.get(&ost).cloned();
                let standing = match (&peer, &dial) {
                    (Some(_), _) => Standing::Down("it has not said yet who it is".into()),
                    (None, Some(_)) => {
                        Standing::Expected("its server has not been heard of".into())
                    }
                    (None, None) => Standing::Down("it is not part of this start".into()),
                };
                let state = State {
                    peer,
                    far: None,
                    remembered: remembered.get(&ost).copied(),
                    is_kept: false,
                    speaker: None,
                    standing,
                    space: Err(UnknownSpace::untold()),
                };
                (ost, state)
            })
            .collect();
        Targets {
            ground,
            started: clock.boot(),
            clock,
            dial,
            permits: None,
            list: Mutex::new(list),
            epoch: AtomicU64::new(1),
            changed: Notify::new(),
            listens: AtomicBool::new(false),
        }
    }

    /// From here on they are shown by what right they are asked.
    pub fn ask_by(&mut self, permits: Permits) {
        self.permits = Some(permits);
    }

    pub fn permits(&self) -> Option<&Permits> {
        self.permits.as_ref()
    }

    /// From here on others can say that they are there, so it is worth waiting for them.
    pub fn listen(&self) {
        self.listens.store(true, SeqCst);
    }

    /// Who asks them: this start.
    pub fn owner(&self) -> &OwnerMark {
        &self.ground.ours
    }

    /// What was remembered of this target last is on disk.
    pub fn is_kept(&self, ost: OstId, known: &KnownTarget) {
        if let Some(state) = self.list.lock().get_mut(&ost)
            && state.remembered.as_ref() == Some(known)
        {
            state.is_kept = true;
        }
    }

    /// Asks a target. It is not asked at all unless it is who it was; one that is expected is waited for.
    ///
    /// # Errors
    /// What the target refuses with; `TargetDown` if it cannot be asked, `TimedOut` if it does not answer.
    pub async fn call(&self, ost: OstId, op: data::Op) -> data::Reply {
        let request = data::Request {
            session: MDS_SESSION,
            map_epoch: self.epoch(),
            job: 0,
            ost,
            warrant: match &self.permits {
                Some(permits) => permits.server(ost),
                None => Warrant::None,
            },
            op,
        };
        let asking = async {
            loop {
                let reply = self.usable(ost).await?.call(request.clone()).await;
                if reply != Err(Refusal::Capability(Fault::Expired)) {
                    return reply;
                }
                // Its server has told of it, and not heard our answer yet: by that it knows us.
                self.clock.sleep(NOT_HEARD_YET).await;
            }
        };
        tokio::select! {
            biased;
            reply = asking => reply,
            () = self.clock.sleep(DEADLINE) => Err(Refusal::TimedOut(format!("ost{ost}"))),
        }
    }

    /// The peer of a target that may be asked, when it may be. Before anybody can be heard nobody is waited for.
    async fn usable(&self, ost: OstId) -> Result<OstPeer, Refusal> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.asked(ost)? {
                Some(peer) => return Ok(peer),
                None if !self.listens.load(SeqCst) => {
                    return Err(down(ost, "its server has not been heard of"));
                }
                None => changed.await,
            }
        }
    }

    /// None for a target that is expected.
    fn asked(&self, ost: OstId) -> Result<Option<OstPeer>, Refusal> {
        let list = self.list.lock();
        let Some(state) = list.get(&ost) else {
            return Err(down(ost, "no target of this number is known"));
        };
        match (&state.standing, &state.peer) {
            (Standing::Good, Some(peer)) => Ok(Some(peer.clone())),
            (Standing::Expected(_), _) => Ok(None),
            (Standing::Down(why) | Standing::Refused(why), _) => Err(down(ost, why)),
            (Standing::Good, None) => Err(down(ost, "it is not part of this start")),
        }
    }

    /// Those of this start; where servers are elsewhere, all that are known.
    pub fn all(&self) -> Vec<OstId> {
        let list = self.list.lock();
        let ours = |state: &State| state.peer.is_some() || self.dial.is_some();
        list.iter()
            .filter(|(_, state)| ours(state))
            .map(|(ost, _)| *ost)
            .collect()
    }

    /// Whether a target answers at all now.
    pub fn is_up(&self, ost: OstId) -> bool {
        matches!(self.asked(ost), Ok(Some(_)))
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
                    address: state.far.as_ref().map(|far| far.address.clone()),
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
    /// Takes over what is to be remembered; returns it, and whether that must survive a power cut, if it is not kept yet.
    fn remember(&mut self, known: KnownTarget) -> Option<(KnownTarget, bool)> {
        let before = self.remembered.replace(known);
        // A stamp that is forgotten is told again by the same run.
        let says = |known: KnownTarget| KnownTarget { stamp: 0, ..known };
        self.is_kept &= before.map(says) == Some(says(known));
        match self.is_kept {
            true => (before != Some(known)).then_some((known, false)),
            false => Some((known, true)),
        }
    }

    /// Why no new file is laid out here.
    fn why_not(&self) -> Option<String> {
        match (&self.standing, &self.space) {
            (Standing::Down(why) | Standing::Refused(why) | Standing::Expected(why), _) => {
                Some(why.clone())
            }
            (Standing::Good, Err(unknown)) => Some(unknown.why().to_owned()),
            (Standing::Good, Ok(space)) if space.available == 0 => Some("it is full".into()),
            (Standing::Good, Ok(_)) => None,
        }
    }

    /// Whether new files may be laid out here any moment, though not now.
    fn may_become_usable(&self) -> bool {
        matches!(
            (&self.standing, &self.space),
            (Standing::Expected(_), _) | (Standing::Good, Err(UnknownSpace::NotYet(_)))
        )
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
