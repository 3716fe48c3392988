//! The client: one session with the servers, from `connect` to `stop`.

use crate::capabilities::CapabilityCache;
use crate::file::OpenFileTable;
use crate::file::inode_table::InodeTable;
use crate::forget_queue::ForgetQueue;
use crate::limits::STATUS_FILES;
use crate::locks::ClientLocks;
use crate::lookup_counts::LookupCounts;
use crate::metrics::{ClientCounts, Counters};
use crate::names::OpenDirs;
use crate::options::SessionOptions;
use crate::pending_calls::PendingCalls;
use crate::pending_opens::PendingOpens;
use crate::replay_log::ReplayLog;
use crate::reply;
use crate::route::{MdsPeer, OstPeer, Route};
use crate::session::{self, ClientSession};
use crate::slots::SlotTable;
use crate::status::{ClientStatus, FileStatus};
use gupfs_platform::Platform;
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{Caller, FsError, InodeId, OstId, SessionId};
use parking_lot::Mutex;
use std::sync::Arc;

/// A session with one file system. All functions may be called from any task, concurrently.
pub struct Client {
    pub(crate) route: Route,
    pub(crate) platform: Platform,
    pub(crate) options: SessionOptions,
    pub(crate) session: ClientSession,
    pub(crate) replay_log: ReplayLog,
    /// Held while the client reconnects to a restarted metadata server: one reconnect at a time.
    pub(crate) reconnecting: tokio::sync::Mutex<()>,
    pub(crate) capabilities: CapabilityCache,
    pub(crate) slots: SlotTable,
    pub(crate) pending_calls: PendingCalls,
    pub(crate) lookup_counts: Mutex<LookupCounts>,
    pub(crate) forget_queue: ForgetQueue,
    pub(crate) pending_opens: PendingOpens,
    pub(crate) inodes: Arc<InodeTable>,
    pub(crate) open_dirs: OpenDirs,
    pub(crate) open_files: OpenFileTable,
    pub(crate) locks: ClientLocks,
    pub(crate) counters: Counters,
    /// Held while unsynced objects of closed files are synced: one such sync at a time.
    pub(crate) syncing_closed: tokio::sync::Mutex<()>,
}

impl Client {
    /// Opens a session.
    ///
    /// # Errors
    /// The metadata server's error.
    pub async fn connect(
        mds: MdsPeer,
        osts: Vec<(OstId, OstPeer)>,
        platform: Platform,
        options: SessionOptions,
    ) -> Result<Arc<Client>, FsError> {
        Client::connect_with_route(Route::new(mds, osts), platform, options).await
    }

    /// The same over a route that finds targets as they are needed.
    ///
    /// # Errors
    /// The metadata server's error.
    pub async fn connect_with_route(
        route: Route,
        platform: Platform,
        options: SessionOptions,
    ) -> Result<Arc<Client>, FsError> {
        let replay_log = ReplayLog::default();
        let sent = platform.clock.boot();
        let reply = route
            .mds
            .call(session::open_session_request(&options.name, options.job))
            .await;
        let (new_session, instance) = session::new_session_in(&reply)?;
        replay_log.start(instance, &reply);
        let session = ClientSession::new(new_session.session, sent);
        let capabilities = CapabilityCache::default();
        capabilities.put_session(new_session.session_capability);
        let shared = options.shared;
        let client = Arc::new(Client {
            route,
            platform,
            options,
            session,
            replay_log,
            reconnecting: tokio::sync::Mutex::default(),
            capabilities,
            slots: SlotTable::default(),
            pending_calls: PendingCalls::default(),
            lookup_counts: Mutex::default(),
            forget_queue: ForgetQueue::default(),
            pending_opens: PendingOpens::default(),
            inodes: InodeTable::new(shared),
            open_dirs: OpenDirs::default(),
            open_files: OpenFileTable::default(),
            locks: ClientLocks::default(),
            counters: Counters::default(),
            syncing_closed: tokio::sync::Mutex::default(),
        });
        client.locks.start(client.session(), instance);
        if shared {
            client.start_renewals();
        }
        Ok(client)
    }

    pub fn root(&self) -> InodeId {
        InodeId::ROOT
    }

    /// The current session; a new one once the server has ended the former.
    pub fn session(&self) -> SessionId {
        self.session.id()
    }

    /// Ends the session: releases open files, reports writes and releases write leases, sends forgotten orphans, syncs, and sends
    /// `CloseSession`. Continues after an error, and returns the first. The client must not be used afterwards.
    pub async fn stop(self: &Arc<Self>) -> Result<(), FsError> {
        let mut first = Ok(());
        let mut keep = |result: Result<(), FsError>| {
            if first.is_ok() {
                first = result;
            }
        };
        for id in self.open_files.ids() {
            keep(self.release(id).await);
        }
        for inode in self.inodes.all() {
            keep(self.end_write_lease(&inode, true).await);
        }
        let forgotten = self.lookup_counts.lock().drain_orphans();
        self.queue_forgets(forgotten);
        keep(self.send_forgets().await);
        keep(self.sync_all().await);
        self.session.start_close();
        let closed = self.call_mds(&Caller::root(), MetaOp::CloseSession).await;
        keep(closed.and_then(|reply| reply::done("close_session", reply)));
        first
    }

    pub fn counts(&self) -> ClientCounts {
        self.counters.read()
    }

    pub fn status(&self) -> ClientStatus {
        let files = self.inodes.all();
        let (known_inodes, orphans) = self.lookup_counts.lock().counts();
        let described = files.iter().take(STATUS_FILES).map(|file| {
            let state = file.state();
            FileStatus {
                ino: format!("{:x}", file.ino.0),
                handles: state.handles,
                writers: state.writers,
                size: state.size,
                has_write_lease: state.has_write_lease,
                unreported: state.has_unreported(),
                unsynced_objects: state.unsynced_objects(file.ino).len(),
            }
        });
        ClientStatus {
            session: self.session().0,
            seq: self.replay_log.seq().0,
            durable: self.replay_log.durable().0,
            replayable_changes: self.replay_log.count(),
            open_files: self.open_files.len(),
            open_inodes: files.len(),
            leased_inodes: files
                .iter()
                .filter(|file| file.state().has_write_lease)
                .count(),
            known_inodes,
            orphans,
            slots_in_use: self.slots.in_use(),
            closed_unsynced: self.inodes.closed_unsynced.lock().len(),
            files: described.collect(),
            pending_calls: self.pending_calls.pending(self.platform.clock.boot()),
            counts: self.counts(),
        }
    }
}
