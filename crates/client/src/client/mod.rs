//! The client: composes its parts, from `connect` to `stop`, and offers their operations.

mod callback;
mod files;
mod locks;
mod names;
mod status;

use crate::file::{Files, Opens};
use crate::inodes::{ClosedUnsynced, InodeTable, OpenFileTable};
use crate::lock_table::ClientLocks;
use crate::locks::Locks;
use crate::lookups::Lookups;
use crate::metrics::Counters;
use crate::names::Namespace;
use crate::options::SessionOptions;
use crate::osts::OstCalls;
use crate::pending_calls::PendingCalls;
use crate::route::{MdsPeer, OstPeer, Route};
use crate::session::{ClientSessionState, MdsSession};
use crate::space::Space;
use gupfs_platform::{Platform, Tasks};
use gupfs_proto::{FsError, InodeId, OstId, SessionId};
use parking_lot::Mutex;
use std::sync::Arc;

/// A session with one file system. All functions may be called from any task, concurrently.
pub struct Client {
    tasks: Tasks,
    mds: Arc<MdsSession>,
    osts: Arc<OstCalls>,
    pending_calls: Arc<PendingCalls>,
    inodes: Arc<InodeTable>,
    open_files: Arc<OpenFileTable>,
    closed_unsynced: Arc<Mutex<ClosedUnsynced>>,
    opens: Opens,
    files: Files,
    names: Namespace,
    space: Space,
    lookups: Arc<Lookups>,
    lock_table: Arc<ClientLocks>,
    locks: Arc<Locks>,
    counters: Arc<Counters>,
}

/// The calls to servers, composed.
struct ServerCalls {
    mds: Arc<MdsSession>,
    osts: Arc<OstCalls>,
    pending_calls: Arc<PendingCalls>,
}

impl ServerCalls {
    async fn open(
        route: Route,
        platform: &Platform,
        options: &SessionOptions,
        state: &ClientSessionState,
        counters: Arc<Counters>,
    ) -> Result<ServerCalls, FsError> {
        let (route, clock) = (Arc::new(route), &platform.clock);
        let pending_calls = PendingCalls::new(clock.clone(), options.observer.clone());
        let pending_calls = Arc::new(pending_calls);
        let mds = MdsSession::open(
            route.clone(),
            platform.clone(),
            options.clone(),
            pending_calls.clone(),
            state.clone(),
            counters,
        )
        .await?;
        let osts = OstCalls::new(
            route,
            mds.clone(),
            pending_calls.clone(),
            clock.clone(),
            options,
        );
        Ok(ServerCalls {
            mds,
            osts,
            pending_calls,
        })
    }
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
        let closed_unsynced = Arc::default();
        let state = ClientSessionState {
            inodes: InodeTable::new(options.shared, Arc::clone(&closed_unsynced)),
            open_dirs: Arc::default(),
            locks: Arc::default(),
            lookup_counts: Arc::default(),
            forget_queue: Arc::default(),
        };
        let counters = Arc::new(Counters::default());
        let opening = ServerCalls::open(route, &platform, &options, &state, counters.clone());
        let calls = opening.await?;
        let client = Client::compose(calls, state, closed_unsynced, platform, &options, counters);
        Ok(Arc::new(client))
    }

    /// Each part gets the parts that it reaches.
    fn compose(
        calls: ServerCalls,
        state: ClientSessionState,
        closed_unsynced: Arc<Mutex<ClosedUnsynced>>,
        platform: Platform,
        options: &SessionOptions,
        counters: Arc<Counters>,
    ) -> Client {
        let ServerCalls {
            mds,
            osts,
            pending_calls,
        } = calls;
        let inodes = state.inodes;
        let open_files = Arc::new(OpenFileTable::default());
        let files = Files::new(
            &mds,
            &osts,
            &inodes,
            &closed_unsynced,
            &counters,
            &platform,
            options,
        );
        let lookups = Lookups::new(
            mds.clone(),
            state.lookup_counts,
            state.forget_queue,
            closed_unsynced.clone(),
            platform.clone(),
        );
        let locks = Locks::new(
            mds.clone(),
            state.locks.clone(),
            open_files.clone(),
            pending_calls.clone(),
            platform.clone(),
        );
        let opens = Opens::new(
            mds.clone(),
            inodes.clone(),
            open_files.clone(),
            &files,
            lookups.clone(),
            locks.clone(),
        );
        let names = Namespace::new(
            mds.clone(),
            inodes.clone(),
            &files,
            lookups.clone(),
            state.open_dirs,
            options,
            counters.clone(),
        );
        Client {
            tasks: platform.tasks,
            space: Space::new(mds.clone(), osts.clone()),
            mds,
            osts,
            pending_calls,
            inodes,
            open_files,
            closed_unsynced,
            opens,
            files,
            names,
            lookups,
            lock_table: state.locks,
            locks,
            counters,
        }
    }

    pub fn root(&self) -> InodeId {
        InodeId::ROOT
    }

    /// The current session; a new one once the server has ended the former.
    pub fn session(&self) -> SessionId {
        self.mds.id()
    }

    /// The connection to the server was replaced: the client renews the session at once over the new one.
    pub fn connection_restored(&self) {
        self.mds.connection_restored();
    }

    /// Ends the session: releases open files, reports writes and releases write leases, sends forgotten orphans, syncs, and sends
    /// `CloseSession`. Continues after an error. The client must not be used afterwards.
    ///
    /// # Errors
    /// The first error; the session may still be open at the server then.
    pub async fn stop(&self) -> Result<(), FsError> {
        let mut first = self.opens.release_all().await;
        for inode in self.inodes.all() {
            let released = self.files.leases.end_write_lease(&inode, true).await;
            first = first.and(released);
        }
        first = first.and(self.lookups.forget_orphans().await);
        first = first.and(self.files.sync.sync_all().await);
        first.and(self.mds.close().await)
    }
}
