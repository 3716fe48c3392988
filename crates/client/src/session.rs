//! The session: how long it is valid without a reply of the server, and what happens when the server ends it.
//!
//! Only a shared client continues after it lost its session. It drops its write leases, its open files are stale, and it opens a
//! new session; names that the kernel has cached stay, because the kernel looks names up again.

use crate::limits::{DEADLINE, SESSION_RETRY_PAUSE};
use crate::reply;
use crate::service::Client;
use gupfs_platform::BootTime;
use gupfs_proto::capability::SessionCapability;
use gupfs_proto::limits::{CLIENT_TERM, RENEW_INTERVAL, SESSION_NAME_MAX};
use gupfs_proto::meta::{self, MetaOp, MetaReplyBody};
use gupfs_proto::{Caller, FsError, OwnerEpoch, Seq, SessionId};
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

pub struct ClientSession {
    id: AtomicU64,
    /// When the client sent the last renewal that the server has answered.
    renewed_at: AtomicU64,
    /// The server has ended the session, and the next one is not open yet.
    is_lost: AtomicBool,
    is_closing: AtomicBool,
    changed: Notify,
    /// The client, for tasks that the session spawns.
    client: Mutex<Weak<Client>>,
}

impl ClientSession {
    pub fn new(session: SessionId, sent: BootTime) -> ClientSession {
        ClientSession {
            id: AtomicU64::new(session.0),
            renewed_at: AtomicU64::new(sent.0),
            is_lost: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            changed: Notify::new(),
            client: Mutex::new(Weak::new()),
        }
    }

    pub fn id(&self) -> SessionId {
        SessionId(self.id.load(Ordering::Acquire))
    }

    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// The client closes the session: it is not renewed any more.
    pub fn start_close(&self) {
        self.is_closing.store(true, Ordering::Release);
    }

    fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    pub fn set_renewed(&self, sent: BootTime) {
        self.renewed_at.fetch_max(sent.0, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    fn valid_until(&self) -> BootTime {
        BootTime(self.renewed_at.load(Ordering::Acquire)) + CLIENT_TERM
    }

    fn replace(&self, session: SessionId) {
        self.id.store(session.0, Ordering::Release);
        self.is_lost.store(false, Ordering::Release);
        self.changed.notify_waiters();
    }
}

impl Client {
    /// Spawns the task that renews the session.
    pub(crate) fn start_renewals(self: &Arc<Self>) {
        *self.session.client.lock() = Arc::downgrade(self);
        let client = Arc::downgrade(self);
        let clock = self.platform.clock.clone();
        self.platform.tasks.spawn("renew the session", async move {
            loop {
                clock.sleep(RENEW_INTERVAL).await;
                match client.upgrade() {
                    Some(client) if !client.session.is_closing() => client.renew(),
                    _ => return,
                }
            }
        });
    }

    /// The connection to the server was replaced: the client renews the session at once over the new one.
    pub fn connection_restored(self: &Arc<Self>) {
        if self.options.shared && !self.session.is_closing() {
            self.clone().renew();
        }
    }

    /// Runs concurrently with the renewal before, should that hang: any answered renewal extends the session.
    fn renew(self: Arc<Self>) {
        if self.session.is_lost() {
            return;
        }
        let tasks = self.platform.tasks.clone();
        tasks.spawn("renew the session once", async move {
            let sent = self.platform.clock.boot();
            let session = self.session.id();
            match self.call_mds(&Caller::root(), MetaOp::Renew).await {
                Ok(MetaReplyBody::Renewed { session_capability }) if self.session.id() == session => {
                    self.capabilities.put_session(session_capability);
                    self.session.set_renewed(sent);
                }
                Ok(_) => {}
                Err(error) => tracing::info!(%session, %error, "the metadata server did not renew the session; the client tries again"),
            }
        });
    }

    /// Returns at once while the session is valid for certain, and otherwise when it was renewed: the server may have given the
    /// leases to another client by now.
    ///
    /// # Errors
    /// `TimedOut` after the deadline of an operation; `Stale` if the session was lost.
    pub(crate) async fn wait_for_valid_session(&self) -> Result<(), FsError> {
        if !self.options.shared || self.platform.clock.boot() < self.session.valid_until() {
            return Ok(());
        }
        let session = self.session.id();
        let renewed = async {
            loop {
                let mut changed = pin!(self.session.changed.notified());
                changed.as_mut().enable();
                if self.session.is_lost() || self.session.id() != session {
                    return Err(FsError::Stale);
                }
                if self.platform.clock.boot() < self.session.valid_until() {
                    return Ok(());
                }
                changed.await;
            }
        };
        tokio::select! {
            biased;
            renewed = renewed => renewed,
            () = self.platform.clock.sleep(DEADLINE) => {
                let what = format!("the metadata server to renew session {session}");
                Err(FsError::TimedOut(what))
            }
        }
    }

    /// Waits until there is a session, for requests that may run in a new one.
    pub(crate) async fn wait_for_session(&self) -> Result<(), FsError> {
        if !self.session.is_lost() {
            return Ok(());
        }
        let opened = async {
            loop {
                let mut changed = pin!(self.session.changed.notified());
                changed.as_mut().enable();
                if !self.session.is_lost() {
                    return;
                }
                changed.await;
            }
        };
        tokio::select! {
            biased;
            () = opened => Ok(()),
            () = self.platform.clock.sleep(DEADLINE) => {
                Err(FsError::TimedOut("a new session".to_string()))
            }
        }
    }

    /// The server has answered that this session has ended.
    pub(crate) fn on_session_ended(&self, session: SessionId) {
        let ours = self.options.shared && self.session.id() == session;
        if !ours || self.session.is_closing() || self.session.is_lost.swap(true, Ordering::AcqRel) {
            return;
        }
        tracing::warn!(%session, "the metadata server has ended this session: open files are stale (ESTALE) until they are reopened");
        self.locks.clear();
        self.session.changed.notify_waiters();
        if let Some(client) = self.session.client.lock().upgrade() {
            self.platform.tasks.spawn("open a new session", async move {
                client.open_next_session().await;
            });
        }
    }

    async fn open_next_session(&self) {
        // No state of the old session may be reported in the new one.
        for inode in self.inodes.all() {
            let _all = inode.range_locks.whole().await;
            let _reporting = inode.reporting.lock().await;
            inode.state().invalidate();
        }
        self.lookup_counts.lock().clear_orphans();
        self.forget_queue.clear();
        while !self.session.is_closing() {
            let sent = self.platform.clock.boot();
            match self.open_session().await {
                Ok(NewSession {
                    session,
                    session_capability,
                }) => {
                    self.capabilities.clear();
                    self.capabilities.put_session(session_capability);
                    self.session.set_renewed(sent);
                    self.session.replace(session);
                    tracing::info!(%session, "opened a new session");
                    return;
                }
                Err(error) => {
                    tracing::info!(%error, "the metadata server refused a new session; the client tries again")
                }
            }
            self.platform.clock.sleep(SESSION_RETRY_PAUSE).await;
        }
    }

    async fn open_session(&self) -> Result<NewSession, FsError> {
        let request = open_session_request(&self.options.name, self.options.job);
        let reply = self.route.mds.call(request).await;
        let (opened, instance) = new_session_in(&reply)?;
        self.replay_log.start(instance, &reply);
        self.locks.start(opened.session, instance);
        Ok(opened)
    }
}

/// The request that opens a session; it carries no session yet.
pub fn open_session_request(name: &str, job: u64) -> meta::MetaRequest {
    let fits = |at: &usize| name.is_char_boundary(*at);
    let end = (0..=name.len().min(SESSION_NAME_MAX)).rev().find(fits);
    meta::MetaRequest {
        session: SessionId(0),
        slot_seq: None,
        caller: Caller::root(),
        job,
        instance: OwnerEpoch(0),
        last_seen: Seq(0),
        op: MetaOp::OpenSession {
            client: name[..end.unwrap_or(0)].to_owned(),
        },
    }
}

/// A new session, and its capability for OSTs.
pub struct NewSession {
    pub session: SessionId,
    pub session_capability: Option<SessionCapability>,
}

/// The new session in a reply, and the server instance that opened it.
pub fn new_session_in(reply: &meta::MetaReply) -> Result<(NewSession, OwnerEpoch), FsError> {
    match &reply.result {
        Ok(MetaReplyBody::Session {
            session,
            instance,
            session_capability,
        }) => Ok((
            NewSession {
                session: *session,
                session_capability: *session_capability,
            },
            *instance,
        )),
        Err(error) => Err(error.clone()),
        Ok(_) => reply::unexpected("open_session"),
    }
}
