//! Renewing the session, and opening the next one when the server has ended it.
//!
//! Only a shared client continues after it lost its session. It drops its write leases, its open files are stale, and it opens a
//! new session; names that the kernel has cached stay, because the kernel looks names up again.

use super::MdsSession;
use crate::limits::SESSION_RETRY_PAUSE;
use crate::reply;
use gupfs_proto::capability::SessionCapability;
use gupfs_proto::limits::{RENEW_INTERVAL, SESSION_NAME_MAX};
use gupfs_proto::meta::{self, MetaOp, MetaReplyBody};
use gupfs_proto::{Caller, FsError, JobId, OwnerEpoch, Seq, SessionId};
use std::sync::Arc;

impl MdsSession {
    /// Spawns the task that renews the session.
    pub(super) fn start_renewals(&self) {
        let session = self.this.clone();
        let clock = self.platform.clock.clone();
        self.platform.tasks.spawn("renew the session", async move {
            loop {
                clock.sleep(RENEW_INTERVAL).await;
                match session.upgrade() {
                    Some(session) if !session.current.is_closing() => session.renew(),
                    _ => return,
                }
            }
        });
    }

    /// The connection to the server was replaced: the client renews the session at once over the new one.
    pub fn connection_restored(self: &Arc<Self>) {
        if self.options.shared && !self.current.is_closing() {
            // A server decides for each connection whether it squashes root.
            self.lease_cache.ask_again();
            self.clone().renew();
        }
    }

    /// Runs concurrently with the renewal before, should that hang: any answered renewal extends the session.
    fn renew(self: Arc<Self>) {
        if self.current.is_lost() {
            return;
        }
        let tasks = self.platform.tasks.clone();
        tasks.spawn("renew the session once", async move {
            let sent = self.platform.clock.boot();
            let session = self.current.id();
            match self.call(&Caller::root(), MetaOp::Renew).await {
                Ok(MetaReplyBody::Renewed { session_capability }) if self.current.id() == session => {
                    self.capabilities.put_session(session_capability);
                    if !self.current.is_valid() {
                        self.lease_cache.clear();
                    }
                    self.current.set_renewed(sent);
                    self.accept_leases().await;
                    self.tell_jobs_again();
                }
                Ok(_) => {}
                Err(error) => tracing::info!(%session, %error, "the metadata server did not renew the session; the client tries again"),
            }
        });
    }

    /// The server has answered that this session has ended.
    pub(super) fn on_session_ended(&self, session: SessionId) {
        let ours = self.options.shared && self.current.id() == session;
        if !ours || self.current.is_closing() || !self.current.set_lost() {
            return;
        }
        tracing::warn!(%session, "the metadata server has ended this session: open files are stale (ESTALE) until they are reopened");
        self.lease_cache.restart();
        self.state.locks.clear();
        self.current.notify_changed();
        if let Some(this) = self.this.upgrade() {
            self.platform.tasks.spawn("open a new session", async move {
                this.open_next_session().await;
            });
        }
    }

    async fn open_next_session(&self) {
        self.kernel_attributes.invalidate_all().await;
        self.drop_all_pages().await;
        self.state.invalidate().await;
        while !self.current.is_closing() {
            let sent = self.platform.clock.boot();
            match self.open_session().await {
                Ok(NewSession {
                    session,
                    session_capability,
                }) => {
                    self.capabilities.clear();
                    self.capabilities.put_session(session_capability);
                    self.current.set_renewed(sent);
                    self.lease_cache.restart();
                    self.current.replace(session);
                    self.accept_leases().await;
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
        let request = open_session_request(&self.options.name);
        let reply = self.route.mds.call(request).await;
        let (opened, instance) = new_session_in(&reply)?;
        self.replay_log.start(instance, &reply);
        self.state.locks.start(opened.session, instance);
        Ok(opened)
    }
}

/// The request that opens a session; it carries no session yet.
pub fn open_session_request(name: &str) -> meta::MetaRequest {
    let fits = |at: &usize| name.is_char_boundary(*at);
    let end = (0..=name.len().min(SESSION_NAME_MAX)).rev().find(fits);
    meta::MetaRequest {
        session: SessionId(0),
        slot_seq: None,
        caller: Caller::root(),
        job: JobId::UNKNOWN,
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
        }) if session.group() == instance.group() => Ok((
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
