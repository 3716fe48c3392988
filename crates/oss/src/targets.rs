//! The targets of one server: the serving ones, and the ones that could not be opened, with the reason.

use crate::object_fences::ObjectFences;
use crate::relay::{RelayTickets, WriteRelay};
use crate::{Authorizer, OssStatus};
use gupfs_accounting::JobTable;
use gupfs_proto::{FsError, OstId, SessionId};
use gupfs_store::object::{Objects, OstStatus};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

/// One target of this server.
pub enum ServedTarget {
    Serving(Objects),
    /// The server could not open it; the text says why and what to do. The other targets serve.
    Down(String),
}

impl From<Objects> for ServedTarget {
    fn from(objects: Objects) -> ServedTarget {
        ServedTarget::Serving(objects)
    }
}

/// One object server: its targets, and the authorizer of requests from other processes.
pub struct Oss {
    /// Distinguishes this host's volumes from those of other hosts with the same numbers; 0 if all servers are on one host.
    host: u64,
    targets: RwLock<BTreeMap<OstId, ServedTarget>>,
    /// Open targets on which the metadata server has sent no verdict yet: their requests wait.
    awaiting_verdict: RwLock<BTreeSet<OstId>>,
    /// Notified when verdicts arrive.
    verdict_arrived: Notify,
    authorizer: Authorizer,
    object_fences: RwLock<BTreeMap<OstId, Arc<ObjectFences>>>,
    relay_tickets: RwLock<BTreeMap<OstId, Arc<RelayTickets>>>,
    /// None: this server relays nothing.
    relay: OnceLock<Arc<WriteRelay>>,
    /// None: this server counts nothing.
    jobs: OnceLock<Arc<JobTable>>,
    /// Of the targets that have reserved space.
    volumes: Mutex<BTreeMap<OstId, u64>>,
}

impl Oss {
    /// A server of these targets, for a cluster on one host.
    ///
    /// # Panics
    /// Two targets have the same id: the caller must ensure that ids are unique.
    pub fn new<T: Into<ServedTarget>>(targets: impl IntoIterator<Item = (OstId, T)>) -> Arc<Oss> {
        Oss::of_host(0, targets)
    }

    /// The same on one of several hosts; `host` identifies it.
    ///
    /// # Panics
    /// Two targets have the same id.
    pub fn of_host<T: Into<ServedTarget>>(
        host: u64,
        targets: impl IntoIterator<Item = (OstId, T)>,
    ) -> Arc<Oss> {
        let mut served = BTreeMap::new();
        for (ost, target) in targets {
            let former = served.insert(ost, target.into());
            assert!(former.is_none(), "{ost:?} is listed twice");
        }
        Arc::new(Oss {
            host,
            targets: RwLock::new(served),
            awaiting_verdict: RwLock::default(),
            verdict_arrived: Notify::new(),
            authorizer: Authorizer::default(),
            object_fences: RwLock::default(),
            relay_tickets: RwLock::default(),
            relay: OnceLock::new(),
            jobs: OnceLock::new(),
            volumes: Mutex::default(),
        })
    }

    /// Authorizes requests of other processes.
    pub fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    /// Of one target.
    pub(crate) fn object_fences(&self, ost: OstId) -> Arc<ObjectFences> {
        if let Some(fences) = self.object_fences.read().get(&ost) {
            return fences.clone();
        }
        self.object_fences.write().entry(ost).or_default().clone()
    }

    /// Of one target.
    pub(crate) fn relay_tickets(&self, ost: OstId) -> Arc<RelayTickets> {
        if let Some(tickets) = self.relay_tickets.read().get(&ost) {
            return tickets.clone();
        }
        self.relay_tickets.write().entry(ost).or_default().clone()
    }

    /// From now on this server relays writes of mirrored files.
    pub fn set_relay(&self, relay: Arc<WriteRelay>) {
        let _is_set_once = self.relay.set(relay);
    }

    /// From now on this server counts there what it does for jobs.
    pub fn set_jobs(&self, jobs: Arc<JobTable>) {
        let _is_set_once = self.jobs.set(jobs);
    }

    pub(crate) fn jobs(&self) -> Option<&Arc<JobTable>> {
        self.jobs.get()
    }

    pub(crate) fn relay(&self) -> Option<&Arc<WriteRelay>> {
        self.relay.get()
    }

    /// A target is about to reserve space: notes which file system it is on, and tells the targets that share one.
    pub(crate) async fn note_volume(&self, target: &Objects) -> Result<(), FsError> {
        let ost = target.ost();
        if self.volumes.lock().contains_key(&ost) {
            return Ok(());
        }
        let volume = target.space().await?.volume;
        let sharing: Vec<OstId> = {
            let mut volumes = self.volumes.lock();
            volumes.insert(ost, volume);
            let same = volumes.iter().filter(|(_, of)| **of == volume);
            same.map(|(ost, _)| *ost).collect()
        };
        if sharing.len() > 1 {
            let all = sharing.into_iter().filter_map(|ost| self.objects(ost).ok());
            all.for_each(|objects| objects.set_shared_volume());
        }
        Ok(())
    }

    /// The number of this host's volume, unique among the volumes of all hosts.
    pub fn cluster_volume(&self, of_host: u64) -> u64 {
        of_host ^ self.host
    }

    /// Adds a target, or replaces one that could not be opened. Its requests wait until `verdicts_arrived` is called for it.
    ///
    /// # Errors
    /// Returns the target if a target with this id already serves.
    pub fn add(&self, ost: OstId, target: ServedTarget) -> Result<(), ServedTarget> {
        let mut targets = self.targets.write();
        match targets.get(&ost) {
            Some(ServedTarget::Serving(_)) => Err(target),
            Some(ServedTarget::Down(_)) | None => {
                self.awaiting_verdict.write().insert(ost);
                targets.insert(ost, target);
                Ok(())
            }
        }
    }

    /// The metadata server has accepted these targets, or has rejected them (`Objects::refuse`): their requests stop waiting.
    pub fn verdicts_arrived(&self, osts: impl IntoIterator<Item = OstId>) {
        let mut awaiting_verdict = self.awaiting_verdict.write();
        osts.into_iter().for_each(|ost| {
            awaiting_verdict.remove(&ost);
        });
        drop(awaiting_verdict);
        self.verdict_arrived.notify_waiters();
    }

    /// Returns when `verdicts_arrived` was called for this target; at once for a target that this server does not have.
    pub(crate) async fn wait_for_verdict(&self, ost: OstId) {
        let is_waiting = || self.awaiting_verdict.read().contains(&ost);
        while is_waiting() {
            let mut arrived = std::pin::pin!(self.verdict_arrived.notified());
            arrived.as_mut().enable();
            if is_waiting() {
                arrived.await;
            }
        }
    }

    /// The objects of a target, after the metadata server's verdict on it.
    ///
    /// # Errors
    /// As of `objects`.
    pub(crate) async fn objects_after_verdict(&self, ost: OstId) -> Result<Objects, FsError> {
        tracing::trace!(target: "walk", file = file!(), "objects_after_verdict");
        self.wait_for_verdict(ost).await;
        self.objects(ost)
    }

    /// The objects of an open target of this server.
    ///
    /// # Errors
    /// `TargetDown` if this server has no such target or could not open it; the error says why.
    pub fn objects(&self, ost: OstId) -> Result<Objects, FsError> {
        let why = match self.targets.read().get(&ost) {
            Some(ServedTarget::Serving(objects)) => return Ok(objects.clone()),
            Some(ServedTarget::Down(why)) => why.clone(),
            None => "this server has no such target".to_owned(),
        };
        Err(FsError::TargetDown { ost, reason: why })
    }

    /// The reason if this server serves no target any more: every target that it could open has failed; the text is the last
    /// one's error. Targets that the metadata server rejected do not count as failed: a restart of this process would not help.
    pub fn failure(&self) -> Option<String> {
        let mut last = None;
        for target in self.targets.read().values() {
            if let ServedTarget::Serving(objects) = target {
                match objects.failure() {
                    Some(why) => last = Some(format!("ost{}: {why}", objects.ost())),
                    None if objects.is_refused() => {}
                    None => return None,
                }
            }
        }
        last
    }

    /// Returns when each target whose sync failed has recorded that its write verifier is retired, or has failed to record it.
    pub async fn wait_verifiers_retired(&self) {
        for (_, target) in self.all() {
            if let Ok(objects) = target {
                objects.wait_retirement_recorded().await;
            }
        }
    }

    /// The ids of all targets, open or not.
    pub fn osts(&self) -> Vec<OstId> {
        self.targets.read().keys().copied().collect()
    }

    /// All targets, each with its objects or the reason why it is not open.
    fn all(&self) -> Vec<(OstId, Result<Objects, String>)> {
        let targets = self.targets.read();
        let all = targets.iter().map(|(ost, target)| match target {
            ServedTarget::Serving(objects) => (*ost, Ok(objects.clone())),
            ServedTarget::Down(why) => (*ost, Err(why.clone())),
        });
        all.collect()
    }

    /// Frees what the targets remember of the writes of a session that has ended, the space that it has reserved, and its tickets.
    pub(crate) fn free_session(&self, session: SessionId) {
        for (_, target) in self.all() {
            if let Ok(objects) = target {
                objects.free_write_slots(session);
                objects.free_reservation(session);
            }
        }
        for tickets in self.relay_tickets.read().values() {
            tickets.free(session);
        }
    }

    /// The state of each target, and the authorizer's counts.
    pub async fn status(&self) -> OssStatus {
        let mut targets = Vec::new();
        for (ost, target) in self.all() {
            targets.push(match target {
                Ok(objects) => objects.status().await,
                Err(why) => OstStatus::down(ost, &why),
            });
        }
        OssStatus {
            targets,
            authorizer: self.authorizer.status(),
        }
    }

    /// Stops all targets cleanly.
    ///
    /// # Errors
    /// The first error of a target. All targets were tried.
    pub async fn stop(&self) -> Result<(), FsError> {
        let mut outcome = Ok(());
        for (_, target) in self.all() {
            if let Ok(objects) = target {
                outcome = outcome.and(objects.stop().await);
            }
        }
        outcome
    }
}
