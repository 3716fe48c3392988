//! # osts: the targets as the metadata server knows them
//!
//! Owns   the list of targets, the recorded identity and space of each, and whether new files may be laid out on it.
//! Never  touches an object by itself, or forgets a target's incarnation.
//! Enter  at `Targets::check_local` and `Targets::report` (a target's report about itself), `Targets::call`,
//!        `Targets::placement`.

mod admin;
mod fence;
mod identity;
mod local;
mod objects;
mod recorded;
mod remote;
mod space;

pub use admin::{AdminFuture, TargetAdmin};
pub use identity::IdentityContext;
pub use remote::DialOss;

pub(crate) use identity::has_later_state;
pub(crate) use local::LocalTargetAction;
pub(crate) use recorded::recorded_targets;
pub(crate) use remote::ReportOutcome;

use crate::capabilities::CapabilityIssuer;
use crate::limits::{DEADLINE, KEYS_RETRY};
use crate::origin::MDS_SESSION;
use gupfs_namespace::KnownTarget;
use gupfs_platform::{BootTime, Clock};
use gupfs_proto::capability::{CapabilityFault, DataCredentials};
use gupfs_proto::cluster::OwnerMark;
use gupfs_proto::data::{self, DataReplyBody};
use gupfs_proto::meta::PlacementTarget;
use gupfs_proto::{FsError, Incarnation, OstId};
use gupfs_rpc::Peer;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use tokio::sync::Notify;

pub type OstPeer = Peer<data::DataRequest, data::DataReply>;

/// One local target as the binary hands it over.
#[derive(Clone)]
pub struct TargetHandle {
    pub ost: OstId,
    pub peer: OstPeer,
    /// Its admin interface, or why it has none.
    pub admin: Result<Arc<dyn TargetAdmin>, String>,
}

pub struct Targets {
    identity_context: IdentityContext,
    clock: Clock,
    started: BootTime,
    /// How to reach remote servers; None when all targets are local.
    dial: Option<Arc<dyn DialOss>>,
    /// Issues the credentials of clients and of this server; None where requests need none.
    issuer: Option<Arc<CapabilityIssuer>>,
    list: Mutex<BTreeMap<OstId, TargetEntry>>,
    /// Rises whenever a target has moved.
    epoch: AtomicU64,
    /// Signals that a target's condition changed.
    changed: Notify,
    /// True once remote servers can report.
    listens: AtomicBool,
}

struct TargetEntry {
    peer: Option<OstPeer>,
    /// The server of a remote target, and when it reported last; None for a local target.
    remote: Option<RemoteServer>,
    recorded: Option<KnownTarget>,
    /// What is recorded survives a power loss, as far as it identifies the target.
    is_durable: bool,
    /// The open instance that was believed last, of a remote target.
    serving: Option<ServingInstance>,
    condition: TargetCondition,
    space: Result<data::TargetCapacity, UnknownSpace>,
}

/// Why a target's free space is not known. Unknown is not full.
#[derive(Clone, Debug)]
enum UnknownSpace {
    /// The target may report it any moment.
    NotYet(String),
    Failed(String),
}

impl UnknownSpace {
    fn not_reported() -> UnknownSpace {
        UnknownSpace::NotYet("its free space is not known yet".into())
    }

    fn why(&self) -> &str {
        match self {
            UnknownSpace::NotYet(why) | UnknownSpace::Failed(why) => why,
        }
    }
}

struct ServingInstance {
    opening: u64,
    address: String,
    last_heard: BootTime,
    /// Another open instance of the target reported in the meantime.
    is_contended: bool,
}

struct RemoteServer {
    address: String,
    last_heard: BootTime,
}

enum TargetCondition {
    /// Its identity is verified, and it can be used.
    Up,
    /// It is remote, and its server has not reported yet that it serves it: a request that needs it waits.
    Expected(String),
    /// It cannot be reached.
    Down(String),
    /// Its identity does not match the recorded one: its bytes must not be used.
    Refused(String),
}

/// A target as `status` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MdsTargetStatus {
    pub ost: OstId,
    /// New files are laid out on it.
    pub usable: bool,
    /// Its identity does not match the recorded one, and it waits for an operator.
    pub refused: bool,
    pub why_not: Option<String>,
    /// The address of its server; None for a local target, and before its server reported.
    pub address: Option<String>,
    pub incarnation: Option<Incarnation>,
    /// The stamp that it reported last.
    pub stamp: Option<u64>,
    pub total: u64,
    pub available: u64,
    pub objects: u64,
}

impl Targets {
    /// `recorded` is what the metadata store has recorded. A recorded target without a local peer is expected to be
    /// served remotely, if there is a way to reach remote servers; otherwise it is shown as absent.
    pub fn new(
        identity_context: IdentityContext,
        clock: Clock,
        dial: Option<Arc<dyn DialOss>>,
        peers: BTreeMap<OstId, OstPeer>,
        recorded: BTreeMap<OstId, KnownTarget>,
    ) -> Targets {
        let known: BTreeSet<OstId> = peers.keys().chain(recorded.keys()).copied().collect();
        let list = known
            .into_iter()
            .map(|ost| {
                let peer = peers.get(&ost).cloned();
                let condition = match (&peer, &dial) {
                    (Some(_), _) => TargetCondition::Down("its identity is not checked yet".into()),
                    (None, Some(_)) => {
                        TargetCondition::Expected("its server has not reported yet".into())
                    }
                    (None, None) => TargetCondition::Down("it is not part of this start".into()),
                };
                let entry = TargetEntry {
                    peer,
                    remote: None,
                    recorded: recorded.get(&ost).copied(),
                    is_durable: false,
                    serving: None,
                    condition,
                    space: Err(UnknownSpace::not_reported()),
                };
                (ost, entry)
            })
            .collect();
        Targets {
            identity_context,
            started: clock.boot(),
            clock,
            dial,
            issuer: None,
            list: Mutex::new(list),
            epoch: AtomicU64::new(1),
            changed: Notify::new(),
            listens: AtomicBool::new(false),
        }
    }

    /// From here on requests to targets carry credentials of this issuer.
    pub fn set_issuer(&mut self, issuer: Arc<CapabilityIssuer>) {
        self.issuer = Some(issuer);
    }

    pub fn issuer(&self) -> Option<&CapabilityIssuer> {
        self.issuer.as_deref()
    }

    /// From here on remote servers can report, so a request may wait for them.
    pub fn listen(&self) {
        self.listens.store(true, SeqCst);
    }

    /// The owner mark of this start.
    pub fn owner(&self) -> &OwnerMark {
        &self.identity_context.ours
    }

    /// Notes that the newest record of this target is durable.
    pub fn mark_durable(&self, ost: OstId, known: &KnownTarget) {
        if let Some(entry) = self.list.lock().get_mut(&ost)
            && entry.recorded.as_ref() == Some(known)
        {
            entry.is_durable = true;
        }
    }

    /// Sends a request to a target. Sends nothing unless the target's identity is verified; waits for an expected target.
    ///
    /// # Errors
    /// The target's error; `TargetDown` if it cannot be reached, `TimedOut` if it does not reply.
    pub async fn call(&self, ost: OstId, op: data::DataOp) -> data::DataReply {
        let request = data::DataRequest {
            session: MDS_SESSION,
            map_epoch: self.epoch(),
            job: 0,
            ost,
            credentials: match &self.issuer {
                Some(issuer) => issuer.server_credentials(ost),
                None => DataCredentials::None,
            },
            op,
        };
        let asking = async {
            loop {
                let reply = self.wait_for_peer(ost).await?.call(request.clone()).await;
                if reply != Err(FsError::Capability(CapabilityFault::Expired)) {
                    return reply;
                }
                // Its server has reported, and not received our reply yet, which brings the keys for our credentials.
                self.clock.sleep(KEYS_RETRY).await;
            }
        };
        tokio::select! {
            biased;
            reply = asking => reply,
            () = self.clock.sleep(DEADLINE) => Err(FsError::TimedOut(format!("ost{ost}"))),
        }
    }

    /// The peer of a target, as soon as it can be used. While no server can report yet, does not wait.
    async fn wait_for_peer(&self, ost: OstId) -> Result<OstPeer, FsError> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.peer_of(ost)? {
                Some(peer) => return Ok(peer),
                None if !self.listens.load(SeqCst) => {
                    return Err(down(ost, "its server has not reported yet"));
                }
                None => changed.await,
            }
        }
    }

    /// None for a target that is expected.
    fn peer_of(&self, ost: OstId) -> Result<Option<OstPeer>, FsError> {
        let list = self.list.lock();
        let Some(entry) = list.get(&ost) else {
            return Err(down(ost, "no target with this number is known"));
        };
        match (&entry.condition, &entry.peer) {
            (TargetCondition::Up, Some(peer)) => Ok(Some(peer.clone())),
            (TargetCondition::Expected(_), _) => Ok(None),
            (TargetCondition::Down(why) | TargetCondition::Refused(why), _) => Err(down(ost, why)),
            (TargetCondition::Up, None) => Err(down(ost, "it is not part of this start")),
        }
    }

    /// The targets of this start; where servers are remote, all known ones.
    pub fn all(&self) -> Vec<OstId> {
        let list = self.list.lock();
        let ours = |entry: &TargetEntry| entry.peer.is_some() || self.dial.is_some();
        list.iter()
            .filter(|(_, entry)| ours(entry))
            .map(|(ost, _)| *ost)
            .collect()
    }

    /// Whether a target can be reached now.
    pub fn is_up(&self, ost: OstId) -> bool {
        matches!(self.peer_of(ost), Ok(Some(_)))
    }

    /// Targets whose identity does not match the recorded one, with the reason: their bytes must not be used.
    pub fn refused(&self) -> Vec<(OstId, String)> {
        self.list
            .lock()
            .iter()
            .filter_map(|(ost, entry)| match &entry.condition {
                TargetCondition::Refused(why) => Some((*ost, why.clone())),
                _ => None,
            })
            .collect()
    }

    /// The targets among which placement chooses, in ascending order. `free` is the space that writers may still use.
    pub fn placement(&self) -> Arc<[PlacementTarget]> {
        self.status()
            .into_iter()
            .map(|target| PlacementTarget {
                ost: target.ost,
                usable: target.usable,
                why_not: target.why_not,
                total: target.total,
                free: target.available,
            })
            .collect()
    }

    pub fn status(&self) -> Vec<MdsTargetStatus> {
        self.list
            .lock()
            .iter()
            .map(|(ost, entry)| {
                let why_not = entry.why_not();
                let space = entry.space.as_ref().copied().unwrap_or_default();
                MdsTargetStatus {
                    ost: *ost,
                    usable: why_not.is_none(),
                    refused: matches!(entry.condition, TargetCondition::Refused(_)),
                    why_not,
                    address: entry.remote.as_ref().map(|remote| remote.address.clone()),
                    incarnation: entry.recorded.map(|r| r.incarnation),
                    stamp: entry.recorded.map(|r| r.stamp),
                    total: space.total,
                    available: space.available,
                    objects: space.objects,
                }
            })
            .collect()
    }
}

impl TargetEntry {
    /// Stores the new identity; returns it if it must be written to the store, with true if the record must survive a power loss.
    fn record(&mut self, known: KnownTarget) -> Option<(KnownTarget, bool)> {
        let before = self.recorded.replace(known);
        // The same run reports a lost stamp again.
        let without_stamp = |known: KnownTarget| KnownTarget { stamp: 0, ..known };
        self.is_durable &= before.map(without_stamp) == Some(without_stamp(known));
        match self.is_durable {
            true => (before != Some(known)).then_some((known, false)),
            false => Some((known, true)),
        }
    }

    /// Why no new file is laid out here.
    fn why_not(&self) -> Option<String> {
        match (&self.condition, &self.space) {
            (
                TargetCondition::Down(why)
                | TargetCondition::Refused(why)
                | TargetCondition::Expected(why),
                _,
            ) => Some(why.clone()),
            (TargetCondition::Up, Err(unknown)) => Some(unknown.why().to_owned()),
            (TargetCondition::Up, Ok(space)) if space.available == 0 => Some("it is full".into()),
            (TargetCondition::Up, Ok(_)) => None,
        }
    }

    /// Whether new files may be laid out here any moment, though not now.
    fn may_become_usable(&self) -> bool {
        matches!(
            (&self.condition, &self.space),
            (TargetCondition::Expected(_), _) | (TargetCondition::Up, Err(UnknownSpace::NotYet(_)))
        )
    }
}

fn down(ost: OstId, why: impl Into<String>) -> FsError {
    FsError::TargetDown {
        ost,
        reason: why.into(),
    }
}

/// The error for a reply that does not belong to the request.
pub fn unexpected_reply(ost: OstId, answer: &DataReplyBody) -> FsError {
    down(
        ost,
        format!("its reply does not belong to the request: {answer:?}"),
    )
}
