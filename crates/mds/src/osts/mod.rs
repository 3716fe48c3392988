//! # osts: the targets as the metadata server knows them
//!
//! Owns   the list of targets, the recorded identity and space of each, and whether new files may be laid out on it.
//! Never  touches an object by itself, or forgets a target's incarnation.
//! Enter  at `Targets::check_local` and `Targets::report` (a target's report about itself), `Targets::call`,
//!        `Targets::placement`.

mod accept_loss;
mod admin;
mod call;
mod domains;
mod drain;
mod entry;
mod fence;
mod identity;
mod local;
mod lost;
mod objects;
mod recorded;
mod remote;
mod space;
mod status;
mod uses;

pub use admin::{AdminFuture, TargetAdmin};
pub use identity::IdentityContext;
pub use status::MdsTargetStatus;
pub use uses::TargetUse;

pub(crate) use call::unexpected_reply;
pub(crate) use identity::has_later_state;
pub(crate) use local::LocalTargetAction;
pub(crate) use lost::LossDeclaration;
pub(crate) use objects::are_right;
pub(crate) use recorded::recorded_targets;
pub(crate) use remote::{ReportOutcome, ReportingServer};

use crate::capabilities::CapabilityIssuer;
use entry::{TargetCondition, TargetEntry, UnknownSpace};
use gupfs_namespace::KnownTarget;
use gupfs_platform::{BootTime, Clock};
use gupfs_proto::cluster::OwnerMark;
use gupfs_proto::{DomainName, OstId, data};
use gupfs_rpc::{DialOss, Peer};
use parking_lot::Mutex;
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
    /// The failure domain of the targets of this process, if it has a name.
    local_domain: Option<DomainName>,
    list: Mutex<BTreeMap<OstId, TargetEntry>>,
    /// Rises whenever a target has moved.
    epoch: AtomicU64,
    /// Signals that a target's condition changed.
    changed: Notify,
    /// True once remote servers can report.
    listens: AtomicBool,
    /// Locked for reading while there are objects that no layout names yet, and for writing while such objects are looked for and removed.
    pub unnamed_objects: tokio::sync::RwLock<()>,
    /// Objects of a copy that was given up could not be removed: the next start sweeps.
    pub leaves_objects: AtomicBool,
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
                let recorded = recorded.get(&ost).copied();
                let lost_since = recorded.and_then(|known| known.lost_since);
                let condition = match (lost_since, &peer, &dial) {
                    (Some(since), _, _) => {
                        lost::condition(recorded.is_some_and(|known| known.is_removed), since)
                    }
                    (None, Some(_), _) => {
                        TargetCondition::Down("its identity is not checked yet".into())
                    }
                    (None, None, Some(_)) => {
                        TargetCondition::Expected("its server has not reported yet".into())
                    }
                    (None, None, None) => {
                        TargetCondition::Down("it is not part of this start".into())
                    }
                };
                let entry = TargetEntry {
                    peer,
                    remote: None,
                    recorded,
                    is_durable: false,
                    serving: None,
                    condition,
                    older_copy: None,
                    down_since: None,
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
            local_domain: None,
            list: Mutex::new(list),
            epoch: AtomicU64::new(1),
            changed: Notify::new(),
            listens: AtomicBool::new(false),
            unnamed_objects: tokio::sync::RwLock::default(),
            leaves_objects: AtomicBool::new(false),
        }
    }

    /// From here on requests to targets carry credentials of this issuer.
    pub fn set_issuer(&mut self, issuer: Arc<CapabilityIssuer>) {
        self.issuer = Some(issuer);
    }

    /// From here on the targets of this process are in this failure domain.
    pub fn set_local_domain(&mut self, domain: Option<DomainName>) {
        self.local_domain = domain;
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
}
