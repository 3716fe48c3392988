//! `Mds`: one metadata server, from its start to its stop.

use crate::callback::CallbackPeer;
use crate::limits::{HAND_OVER_WAIT, STOP_CONFIRM_TIMEOUT, STOP_WAIT, SURVEY_POLL, SURVEY_WAIT};
use crate::osts::TargetAdmin;
use crate::parts::MdsParts;
use crate::recover::RecoveryReport;
use gupfs_accounting::JobTable;
use gupfs_platform::Task;
use gupfs_proto::cluster::CapabilityKeys;
use gupfs_proto::jobs::{JobKey, JobUse};
use gupfs_proto::{FsError, OstId, OwnerEpoch, SessionId};
use gupfs_store::kv::KvError;
use gupfs_store::log::StopMode;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// One metadata server. Dropped without `stop` it ends as if it had been killed.
pub struct Mds {
    pub(crate) parts: MdsParts,
    pub(crate) recovery: RecoveryReport,
    /// Targets that reported before the start.
    pub(crate) surveyed: Vec<OstId>,
    pub(crate) background_tasks: Mutex<Vec<Task<()>>>,
    /// Another server goes on when this one stops.
    pub(crate) hands_over: bool,
}

impl Drop for Mds {
    fn drop(&mut self) {
        for task in self.background_tasks.lock().iter() {
            task.stop();
        }
    }
}

impl Mds {
    /// Returns when the targets that reported before this start serve, or after a while: of the targets that have seen a later
    /// state than the store, a later start without --accept-loss accepts only those that have served the store since.
    pub async fn wait_for_surveyed(&self) {
        let clock = &self.parts.clock;
        let begun = clock.boot();
        let not_yet = |ost: &&OstId| !self.parts.targets.is_up(**ost);
        while let Some(ost) = self.surveyed.iter().find(not_yet) {
            if clock.boot().since(begun) >= SURVEY_WAIT {
                tracing::warn!(%ost, "ost{ost} reported before this start and does not serve yet; run `gupfs mds --accept-loss` again while its server runs");
                return;
            }
            clock.sleep(SURVEY_POLL).await;
        }
    }

    /// The owner epoch of this start: every start has a higher one.
    pub fn owner_epoch(&self) -> OwnerEpoch {
        self.parts.owner_epoch
    }

    /// Whether the session is registered.
    pub fn has_session(&self, session: SessionId) -> bool {
        self.parts.sessions.is_registered(session)
    }

    /// Why the server serves nothing any more: the store failed. The process should end.
    pub fn failure(&self) -> Option<String> {
        self.parts.store.failure().map(String::from)
    }

    /// The name that the session's client gave itself; None if the session is not registered.
    pub fn client_of(&self, session: SessionId) -> Option<String> {
        self.parts.sessions.client_of(session)
    }

    /// Ends a session whatever its client does: its host may not use the cluster any more.
    pub async fn end_session(&self, session: SessionId) {
        self.parts.session_end.end_by_server(session).await;
    }

    /// The table in which this server counts what it does for jobs; object servers of this process count in it, too.
    pub fn jobs(&self) -> &Arc<JobTable> {
        &self.parts.requests.jobs
    }

    /// What the servers have done for jobs: those behind `after`.
    pub fn job_use(&self, after: Option<JobKey>) -> JobUse {
        self.jobs()
            .job_use(after, |session| self.client_of(session))
    }

    /// Registers the connection for callbacks to a session. Callbacks that wait for this session are sent now.
    pub fn attach(&self, session: SessionId, peer: CallbackPeer) {
        // Not for an ended session: nothing would detach it.
        if self.parts.sessions.is_registered(session) {
            self.parts.callbacks.attach(session, peer);
        }
    }

    /// The session's connection is gone. Callbacks without a reply are sent again over its next connection.
    pub fn detach(&self, session: SessionId) {
        self.parts.callbacks.detach(session);
    }

    /// Checks a local target: at its start, and now and then so that its stamp is recorded. Err in `admin` says
    /// why the target has no admin interface.
    ///
    /// # Errors
    /// `TargetDown` with the reason if its identity does not match the recorded one: its bytes must not be used.
    pub async fn admit_local_target(
        &self,
        ost: OstId,
        admin: Result<Arc<dyn TargetAdmin>, String>,
    ) -> Result<(), FsError> {
        let admitted = self
            .parts
            .target_records
            .admit_local_target(ost, admin)
            .await;
        self.parts.placement.update();
        admitted
    }

    /// Returns the reason as soon as this server can serve no more: its process should end.
    pub async fn wait_for_failure(&self) -> String {
        self.parts.serving.wait_for_failure().await
    }

    /// The keys with which the server of these targets verifies capabilities; None where no capabilities are issued.
    pub fn capability_keys(&self, osts: &[OstId]) -> Option<CapabilityKeys> {
        let issuer = self.parts.issuer.as_ref()?;
        Some(issuer.capability_keys(osts))
    }

    /// Targets whose identity does not match the recorded one, with the reason.
    pub fn refused_targets(&self) -> Vec<(OstId, String)> {
        self.parts.targets.refused()
    }

    /// Targets that were declared lost, or removed: they are not part of the cluster any more.
    pub fn former_targets(&self) -> Vec<OstId> {
        self.parts.targets.lost()
    }

    pub fn recovery(&self) -> &RecoveryReport {
        &self.recovery
    }

    /// Has all sessions give up their leases on metadata, and grants no more. To be called before the connections are closed: after a stop
    /// without it, the next start waits for all sessions as after a crash.
    pub async fn revoke_all_leases(&self) {
        self.parts.leases.revoke_all().await;
    }

    /// Finishes the requests in flight, refuses new ones, stops the background tasks and closes the store with everything
    /// durable.
    ///
    /// # Errors
    /// If the store failed, before or now: then it is not known what is on the disk until the store is opened again.
    pub async fn stop(&self) -> Result<(), KvError> {
        self.parts.serving.begin_stop();
        self.drain_requests().await;
        // What a copy leaves behind the sweep of the next start removes.
        let targets = &self.parts.targets;
        let leaves_objects =
            targets.unnamed_objects.try_write().is_err() || targets.leaves_objects.load(Relaxed);
        let tasks = std::mem::take(&mut *self.background_tasks.lock());
        for task in tasks {
            task.stop();
            let _ = task.await; // the error says that it was stopped
        }
        // What is not confirmed in time stays recorded.
        if self.parts.store.failure().is_none() {
            tokio::select! {
                biased;
                () = self.parts.confirm_task.confirm_all() => {}
                () = self.parts.clock.sleep(self.limited(STOP_CONFIRM_TIMEOUT)) => {}
            }
        }
        let has_failed = self.parts.store.failure().is_some();
        let leases_revoked = has_failed || self.parts.leases.revoke_all().await;
        let mode = match self.parts.sweep.status().left {
            // The next owner serves changes at once after a clean stop.
            0 if leases_revoked && !leaves_objects => StopMode::Clean,
            _ => StopMode::WorkPending,
        };
        self.parts.store.stop(mode).await
    }

    /// Waits for the requests in flight, at most `STOP_WAIT`, or `HAND_OVER_WAIT`.
    async fn drain_requests(&self) {
        tokio::select! {
            biased;
            () = self.parts.in_flight.wait_drained() => {}
            () = self.parts.clock.sleep(self.limited(STOP_WAIT)) => {
                tracing::warn!(waits = ?self.parts.waits.status(), "the server stops although these requests are not finished");
            }
        }
    }

    fn limited(&self, wait: Duration) -> Duration {
        match self.hands_over {
            true => HAND_OVER_WAIT,
            false => wait,
        }
    }
}
