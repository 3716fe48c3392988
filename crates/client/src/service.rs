//! The client: one session with the servers, from `connect` to `stop`.

use crate::answer;
use crate::calls::Calls;
use crate::file::Handles;
use crate::file::table::Table;
use crate::forgets::Forgets;
use crate::lanes::Lanes;
use crate::ledger::Ledger;
use crate::limits::STATUS_FILES;
use crate::locks::Locks;
use crate::metrics::{Counted, Counters};
use crate::names::OpenDirs;
use crate::opening::Opening;
use crate::options::Options;
use crate::route::{Mds, Ost, Route};
use crate::session::{self, Session};
use crate::status::{FileStatus, Status};
use crate::view::View;
use crate::warrants::Warrants;
use gupfs_platform::Platform;
use gupfs_proto::meta::Op;
use gupfs_proto::{Caller, InodeId, OstId, Refusal, SessionId};
use parking_lot::Mutex;
use std::sync::Arc;

/// A session with one file system. All functions may be called from any task, beside each other.
pub struct Client {
    pub(crate) route: Route,
    pub(crate) platform: Platform,
    pub(crate) options: Options,
    pub(crate) session: Session,
    pub(crate) view: View,
    /// One return to a server that was started again.
    pub(crate) coming_back: tokio::sync::Mutex<()>,
    pub(crate) warrants: Warrants,
    pub(crate) lanes: Lanes,
    pub(crate) calls: Calls,
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) forgets: Forgets,
    pub(crate) opening: Opening,
    pub(crate) table: Arc<Table>,
    pub(crate) open_dirs: OpenDirs,
    pub(crate) handles: Handles,
    pub(crate) locks: Locks,
    pub(crate) counters: Counters,
    /// A background sync of closed files' objects is under way.
    /// One sync of what closed files left at a time.
    pub(crate) syncing_left: tokio::sync::Mutex<()>,
}

impl Client {
    /// Opens a session.
    ///
    /// # Errors
    /// What the metadata server refuses it with.
    pub async fn connect(
        mds: Mds,
        osts: Vec<(OstId, Ost)>,
        platform: Platform,
        options: Options,
    ) -> Result<Arc<Client>, Refusal> {
        Client::begin(Route::new(mds, osts), platform, options).await
    }

    /// The same over a route whose targets are found as they are needed.
    ///
    /// # Errors
    /// What the metadata server refuses it with.
    pub async fn begin(
        route: Route,
        platform: Platform,
        options: Options,
    ) -> Result<Arc<Client>, Refusal> {
        let view = View::default();
        let sent = platform.clock.boot();
        let reply = route
            .mds
            .call(session::opening(&options.name, options.job))
            .await;
        let (opened, life) = session::session_of(&reply)?;
        view.begin(life, &reply);
        let session = Session::new(opened.session, sent);
        let warrants = Warrants::default();
        warrants.passed(opened.pass);
        let shared = options.shared;
        let client = Arc::new(Client {
            route,
            platform,
            options,
            session,
            view,
            coming_back: tokio::sync::Mutex::default(),
            warrants,
            lanes: Lanes::default(),
            calls: Calls::default(),
            ledger: Mutex::default(),
            forgets: Forgets::default(),
            opening: Opening::default(),
            table: Table::new(shared),
            open_dirs: OpenDirs::default(),
            handles: Handles::default(),
            locks: Locks::default(),
            counters: Counters::default(),
            syncing_left: tokio::sync::Mutex::default(),
        });
        client.locks.begin(client.session(), life);
        if shared {
            client.keep_session();
        }
        Ok(client)
    }

    pub fn root(&self) -> InodeId {
        InodeId::ROOT
    }

    /// Another, once the former was ended by the server.
    pub fn session(&self) -> SessionId {
        self.session.current()
    }

    /// Ends the session: releases what is open, tells what was written, gives up what was forgotten, syncs, and says
    /// goodbye. Goes on after an error, and tells the first. Nothing is to be asked afterwards.
    pub async fn stop(self: &Arc<Self>) -> Result<(), Refusal> {
        let mut first = Ok(());
        let mut keep = |result: Result<(), Refusal>| {
            if first.is_ok() {
                first = result;
            }
        };
        for id in self.handles.ids() {
            keep(self.release(id).await);
        }
        for inode in self.table.all() {
            keep(self.end_holding(&inode, true).await);
        }
        let gone = self.ledger.lock().end();
        self.tell_gone(gone);
        keep(self.send_gone().await);
        keep(self.sync_all().await);
        self.session.end();
        let goodbye = self.ask(&Caller::root(), Op::CloseSession).await;
        keep(goodbye.and_then(|answer| answer::done("close_session", answer)));
        first
    }

    pub fn counted(&self) -> Counted {
        self.counters.read()
    }

    pub fn status(&self) -> Status {
        let files = self.table.all();
        let (known_inodes, orphans) = self.ledger.lock().counts();
        let described = files.iter().take(STATUS_FILES).map(|file| {
            let state = file.state();
            FileStatus {
                ino: format!("{:x}", file.ino.0),
                handles: state.handles,
                writers: state.writers,
                size: state.size,
                held: state.marked,
                untold: state.is_untold(),
                unsynced_objects: state.unsynced(file.ino).len(),
            }
        });
        Status {
            session: self.session().0,
            seq: self.view.seq().0,
            durable: self.view.durable().0,
            kept: self.view.kept(),
            open_files: self.handles.len(),
            open_inodes: files.len(),
            held_inodes: files.iter().filter(|file| file.state().marked).count(),
            known_inodes,
            orphans,
            lanes_in_use: self.lanes.in_use(),
            left_unsynced: self.table.left.lock().len(),
            files: described.collect(),
            waiting: self.calls.waiting(self.platform.clock.boot()),
            counted: self.counted(),
        }
    }
}
