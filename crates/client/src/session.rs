//! The session: how long it counts without a word of the server, and what happens when it was ended.
//!
//! Only a shared client loses its session and lives on. What it held is dropped, what was open is stale, and a new session is
//! opened; what the kernel knows of names stays, for names are looked up anew.

use crate::answer;
use crate::limits::{DEADLINE, REOPEN_PAUSE};
use crate::service::Client;
use gupfs_platform::BootTime;
use gupfs_proto::capability::Pass;
use gupfs_proto::limits::{CLIENT_TERM, RENEW_EVERY, SESSION_NAME_MAX};
use gupfs_proto::meta::{self, Answer, Op};
use gupfs_proto::{Caller, OwnerEpoch, Refusal, Seq, SessionId};
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

pub struct Session {
    current: AtomicU64,
    /// When the last word was sent that the server has answered.
    renewed: AtomicU64,
    /// It was ended, and the next is not opened yet.
    is_lost: AtomicBool,
    ends: AtomicBool,
    changed: Notify,
    /// Whom a task of its own works for.
    client: Mutex<Weak<Client>>,
}

impl Session {
    pub fn new(session: SessionId, sent: BootTime) -> Session {
        Session {
            current: AtomicU64::new(session.0),
            renewed: AtomicU64::new(sent.0),
            is_lost: AtomicBool::new(false),
            ends: AtomicBool::new(false),
            changed: Notify::new(),
            client: Mutex::new(Weak::new()),
        }
    }

    pub fn current(&self) -> SessionId {
        SessionId(self.current.load(Ordering::Acquire))
    }

    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// The client says goodbye: it is not renewed any more.
    pub fn end(&self) {
        self.ends.store(true, Ordering::Release);
    }

    fn has_ended(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    pub fn was_renewed(&self, sent: BootTime) {
        self.renewed.fetch_max(sent.0, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    fn counts_until(&self) -> BootTime {
        BootTime(self.renewed.load(Ordering::Acquire)) + CLIENT_TERM
    }

    fn is_now(&self, session: SessionId) {
        self.current.store(session.0, Ordering::Release);
        self.is_lost.store(false, Ordering::Release);
        self.changed.notify_waiters();
    }
}

impl Client {
    /// Sees to it that the session is renewed, and opened anew if it is lost.
    pub(crate) fn keep_session(self: &Arc<Self>) {
        *self.session.client.lock() = Arc::downgrade(self);
        let client = Arc::downgrade(self);
        let clock = self.platform.clock.clone();
        self.platform.tasks.spawn("renew the session", async move {
            loop {
                clock.sleep(RENEW_EVERY).await;
                match client.upgrade() {
                    Some(client) if !client.session.has_ended() => client.renew(),
                    _ => return,
                }
            }
        });
    }

    /// The way to the server is another than it was: it is told at once who is there.
    pub fn is_back(self: &Arc<Self>) {
        if self.options.shared && !self.session.has_ended() {
            self.clone().renew();
        }
    }

    /// Beside the one before, should that be stuck: any that is answered counts.
    fn renew(self: Arc<Self>) {
        if self.session.is_lost() {
            return;
        }
        let tasks = self.platform.tasks.clone();
        tasks.spawn("say that the client lives", async move {
            let sent = self.platform.clock.boot();
            let session = self.session.current();
            match self.ask(&Caller::root(), Op::Renew).await {
                Ok(Answer::Renewed { pass }) if self.session.current() == session => {
                    self.warrants.passed(pass);
                    self.session.was_renewed(sent);
                }
                Ok(_) => {}
                Err(refusal) => tracing::info!(%session, %refusal, "the session is not renewed"),
            }
        });
    }

    /// Returns as long as the session is surely alive, and else when it was renewed: what is held may be another's by now.
    ///
    /// # Errors
    /// `TimedOut` after the deadline of an operation; `Stale` if the session was lost.
    pub(crate) async fn within_term(&self) -> Result<(), Refusal> {
        if !self.options.shared || self.platform.clock.boot() < self.session.counts_until() {
            return Ok(());
        }
        let session = self.session.current();
        let renewed = async {
            loop {
                let mut changed = pin!(self.session.changed.notified());
                changed.as_mut().enable();
                if self.session.is_lost() || self.session.current() != session {
                    return Err(Refusal::Stale);
                }
                if self.platform.clock.boot() < self.session.counts_until() {
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
                Err(Refusal::TimedOut(what))
            }
        }
    }

    /// Waits until there is a session, for who begins something new.
    pub(crate) async fn in_a_session(&self) -> Result<(), Refusal> {
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
                Err(Refusal::TimedOut("a new session".to_string()))
            }
        }
    }

    /// The server has said that this session has ended.
    pub(crate) fn session_has_ended(&self, session: SessionId) {
        let ours = self.options.shared && self.session.current() == session;
        if !ours || self.session.has_ended() || self.session.is_lost.swap(true, Ordering::AcqRel) {
            return;
        }
        tracing::warn!(%session, "the session was ended by the server: what was open is stale");
        self.locks.lose();
        self.session.changed.notify_waiters();
        if let Some(client) = self.session.client.lock().upgrade() {
            self.platform.tasks.spawn("open a new session", async move {
                client.begin_anew().await;
            });
        }
    }

    async fn begin_anew(&self) {
        // Nothing of it may be said in the new session's name.
        for inode in self.table.all() {
            let _all = inode.ranges.whole().await;
            let _telling = inode.telling.lock().await;
            inode.state().lose();
        }
        self.ledger.lock().lose();
        self.forgets.lose();
        while !self.session.has_ended() {
            let sent = self.platform.clock.boot();
            match self.open_session().await {
                Ok(NewSession { session, pass }) => {
                    self.warrants.begin_anew();
                    self.warrants.passed(pass);
                    self.session.was_renewed(sent);
                    self.session.is_now(session);
                    tracing::info!(%session, "a new session was opened");
                    return;
                }
                Err(refusal) => tracing::info!(%refusal, "no new session yet"),
            }
            self.platform.clock.sleep(REOPEN_PAUSE).await;
        }
    }

    async fn open_session(&self) -> Result<NewSession, Refusal> {
        let request = opening(&self.options.name, self.options.job);
        let reply = self.route.mds.call(request).await;
        let (opened, life) = session_of(&reply)?;
        self.view.begin(life, &reply);
        self.locks.begin(opened.session, life);
        Ok(opened)
    }
}

/// There is no session yet that could ask.
pub fn opening(name: &str, job: u64) -> meta::Request {
    let fits = |at: &usize| name.is_char_boundary(*at);
    let end = (0..=name.len().min(SESSION_NAME_MAX)).rev().find(fits);
    meta::Request {
        session: SessionId(0),
        lane: None,
        caller: Caller::root(),
        job,
        life: OwnerEpoch(0),
        seen: Seq(0),
        op: Op::OpenSession {
            client: name[..end.unwrap_or(0)].to_owned(),
        },
    }
}

/// A new session, and what it shows to OSTs.
pub struct NewSession {
    pub session: SessionId,
    pub pass: Option<Pass>,
}

/// The new session, and in which life of the server it was opened.
pub fn session_of(reply: &meta::Reply) -> Result<(NewSession, OwnerEpoch), Refusal> {
    match &reply.result {
        Ok(Answer::Session {
            session,
            life,
            pass,
        }) => Ok((
            NewSession {
                session: *session,
                pass: *pass,
            },
            *life,
        )),
        Err(refusal) => Err(refusal.clone()),
        Ok(_) => answer::unexpected("open_session"),
    }
}
