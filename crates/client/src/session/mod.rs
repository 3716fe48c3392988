//! # session: one operation of the metadata server, sent and answered
//!
//! Owns   the session with the metadata server: its term and renewal, slots, replay log, capabilities, leases on metadata, and what
//!        the kernel caches by them; the reconnect to a restarted server; what the server keeps for the session (`ClientSessionState`).
//! Never  knows what an operation does to a file.
//! Enter  at `MdsSession::call`.

mod call;
mod capabilities;
mod credentials;
mod job_labels;
mod leases;
mod reconnect;
mod renew;
mod replay_log;
mod slots;
mod state;
mod validity;

pub use state::ClientSessionState;

use crate::data_cache::DataCache;
use crate::kernel_attributes::KernelAttributes;
use crate::kernel_pages::KernelPages;
use crate::lease_cache::{LeaseCache, LeaseCacheStatus};
use crate::metrics::Counters;
use crate::options::SessionOptions;
use crate::pending_calls::PendingCalls;
use crate::route::Route;
use capabilities::CapabilityCache;
use gupfs_platform::{Clock, Platform};
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{Caller, FsError, MapEpoch, Seq, SessionId};
use job_labels::JobLabels;
use replay_log::ReplayLog;
use slots::SlotTable;
use std::sync::{Arc, Weak};
use validity::SessionValidity;

/// The session of this client. When the server has ended it, a shared client continues in a new one.
pub struct MdsSession {
    route: Arc<Route>,
    platform: Platform,
    options: SessionOptions,
    current: SessionValidity,
    replay_log: ReplayLog,
    /// Held while the client reconnects to a restarted metadata server: one reconnect at a time.
    reconnecting: tokio::sync::Mutex<()>,
    capabilities: CapabilityCache,
    lease_cache: LeaseCache,
    kernel_attributes: KernelAttributes,
    kernel_pages: Arc<KernelPages>,
    data_cache: Arc<DataCache>,
    slots: SlotTable,
    job_labels: JobLabels,
    pending_calls: Arc<PendingCalls>,
    state: ClientSessionState,
    /// For tasks that the session spawns.
    this: Weak<MdsSession>,
}

impl MdsSession {
    /// Opens a session, and renews it from then on if the client is shared.
    pub async fn open(
        route: Arc<Route>,
        platform: Platform,
        options: SessionOptions,
        pending_calls: Arc<PendingCalls>,
        state: ClientSessionState,
        counters: Arc<Counters>,
    ) -> Result<Arc<MdsSession>, FsError> {
        let replay_log = ReplayLog::default();
        let sent = platform.clock.boot();
        let request = renew::open_session_request(&options.name);
        let reply = route.mds.call(request).await;
        let (opened, instance) = renew::new_session_in(&reply)?;
        replay_log.start(instance, &reply);
        state.locks.start(opened.session, instance);
        let capabilities = CapabilityCache::default();
        capabilities.put_session(opened.session_capability);
        let clock = platform.clock.clone();
        let lookup_counts = state.lookup_counts.clone();
        let kernel_attributes = KernelAttributes::new(lookup_counts, clock.clone());
        let kernel_pages = KernelPages::new(clock.clone(), platform.tasks.clone());
        let session = Arc::new_cyclic(|this| MdsSession {
            route,
            platform,
            current: SessionValidity::new(opened.session, sent, clock, options.shared),
            lease_cache: LeaseCache::new(options.shared, counters),
            kernel_attributes,
            kernel_pages,
            data_cache: DataCache::new(match options.shared {
                true => options.data_cache_max,
                // The kernel caches the files of the only client.
                false => 0,
            }),
            options,
            replay_log,
            reconnecting: tokio::sync::Mutex::default(),
            capabilities,
            slots: SlotTable::default(),
            job_labels: JobLabels::default(),
            pending_calls,
            state,
            this: this.clone(),
        });
        if session.is_shared() {
            session.accept_leases().await;
            session.start_renewals();
        }
        Ok(session)
    }

    /// The current session; a new one once the server has ended the former.
    pub fn id(&self) -> SessionId {
        self.current.id()
    }

    /// Other clients may use the same files.
    pub fn is_shared(&self) -> bool {
        self.options.shared
    }

    pub fn clock(&self) -> &Clock {
        &self.platform.clock
    }

    /// Checks the session in which a file was opened.
    ///
    /// # Errors
    /// `Stale` if that session is lost.
    pub fn check_opened_in(&self, session: SessionId) -> Result<(), FsError> {
        if self.current.is_lost() || session != self.id() {
            return Err(FsError::Stale);
        }
        Ok(())
    }

    /// Whether the server holds what it has promised to this session for certain.
    pub fn is_valid(&self) -> bool {
        self.current.is_valid()
    }

    /// Returns at once while the session is valid for certain, and otherwise when it was renewed: the server may have given the
    /// leases to another client by now.
    ///
    /// # Errors
    /// `TimedOut` after the deadline of an operation; `Stale` if the session was lost.
    pub fn wait_for_valid_session(&self) -> impl Future<Output = Result<(), FsError>> {
        self.current.wait_until_valid()
    }

    /// When this returns, every change seen so far survives a power loss.
    pub async fn sync_log(&self) -> Result<(), FsError> {
        let Some(upto) = self.replay_log.newest_not_durable() else {
            return Ok(());
        };
        let reply = self.call(&Caller::root(), MetaOp::Sync { upto }).await?;
        crate::reply::done("sync", reply)
    }

    /// The newest cluster map that a reply has named.
    pub fn map_epoch(&self) -> MapEpoch {
        self.replay_log.map_epoch()
    }

    /// The newest change seen, and the newest that is known to survive a power loss.
    pub fn positions(&self) -> (Seq, Seq) {
        (self.replay_log.seq(), self.replay_log.durable())
    }

    /// Changes in the replay log.
    pub fn replayable_changes(&self) -> usize {
        self.replay_log.count()
    }

    pub fn slots_in_use(&self) -> usize {
        self.slots.in_use()
    }

    /// What the session's leases answer.
    pub fn lease_cache_status(&self) -> LeaseCacheStatus {
        self.lease_cache.status()
    }

    /// Inodes whose attributes the kernel may have by leases.
    pub fn kernel_attributes_given(&self) -> usize {
        self.kernel_attributes.given()
    }

    /// What this client has read of files; off where it is the only client.
    pub fn data_cache(&self) -> &Arc<DataCache> {
        &self.data_cache
    }

    /// Which files' pages the kernel may have.
    pub fn kernel_pages(&self) -> &Arc<KernelPages> {
        &self.kernel_pages
    }

    /// Ends the session at the server. It is not renewed any more.
    pub async fn close(&self) -> Result<(), FsError> {
        self.current.start_close();
        self.lease_cache.restart();
        let closed = self.call(&Caller::root(), MetaOp::CloseSession).await;
        closed.and_then(|reply| crate::reply::done("close_session", reply))
    }
}
