//! How long the session is valid without a reply of the server, and waiting for it.

use crate::limits::DEADLINE;
use gupfs_platform::{BootTime, Clock};
use gupfs_proto::limits::CLIENT_TERM;
use gupfs_proto::{FsError, SessionId};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Notify;

pub struct SessionValidity {
    id: AtomicU64,
    /// When the client sent the last renewal that the server has answered.
    renewed_at: AtomicU64,
    /// The server has ended the session, and the next one is not open yet.
    is_lost: AtomicBool,
    is_closing: AtomicBool,
    changed: Notify,
    clock: Clock,
    /// The session of a client that is not shared does not expire.
    shared: bool,
}

impl SessionValidity {
    /// `sent`: when the client sent the request that opened it.
    pub fn new(session: SessionId, sent: BootTime, clock: Clock, shared: bool) -> SessionValidity {
        SessionValidity {
            id: AtomicU64::new(session.0),
            renewed_at: AtomicU64::new(sent.0),
            is_lost: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            changed: Notify::new(),
            clock,
            shared,
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

    pub fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    pub fn set_renewed(&self, sent: BootTime) {
        self.renewed_at.fetch_max(sent.0, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    fn valid_until(&self) -> BootTime {
        BootTime(self.renewed_at.load(Ordering::Acquire)) + CLIENT_TERM
    }

    /// Until when the server holds for certain what it has promised to this session. None if it does not.
    pub fn term_end(&self, now: BootTime) -> Option<BootTime> {
        let until = self.valid_until();
        (!self.is_lost() && now < until).then_some(until)
    }

    /// Whether the server holds what it has promised to this session for certain.
    pub fn is_valid(&self) -> bool {
        !self.is_lost() && (!self.shared || self.clock.boot() < self.valid_until())
    }

    /// The next session is open.
    pub fn replace(&self, session: SessionId) {
        self.id.store(session.0, Ordering::Release);
        self.is_lost.store(false, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// The server has ended the session. False if that was known.
    pub fn set_lost(&self) -> bool {
        !self.is_lost.swap(true, Ordering::AcqRel)
    }

    pub fn notify_changed(&self) {
        self.changed.notify_waiters();
    }

    /// Returns at once while the session is valid for certain, and otherwise when it was renewed: the server may have given the
    /// leases to another client by now.
    ///
    /// # Errors
    /// `TimedOut` after the deadline of an operation; `Stale` if the session was lost.
    pub async fn wait_until_valid(&self) -> Result<(), FsError> {
        if !self.shared || self.clock.boot() < self.valid_until() {
            return Ok(());
        }
        let session = self.id();
        let renewed = async {
            loop {
                let mut changed = pin!(self.changed.notified());
                changed.as_mut().enable();
                if self.is_lost() || self.id() != session {
                    return Err(FsError::Stale);
                }
                if self.clock.boot() < self.valid_until() {
                    return Ok(());
                }
                changed.await;
            }
        };
        tokio::select! {
            biased;
            renewed = renewed => renewed,
            () = self.clock.sleep(DEADLINE) => {
                let what = format!("the metadata server to renew session {session}");
                Err(FsError::TimedOut(what))
            }
        }
    }

    /// Waits until there is a session, for requests that may run in a new one.
    pub async fn wait_until_open(&self) -> Result<(), FsError> {
        if !self.is_lost() {
            return Ok(());
        }
        let opened = async {
            loop {
                let mut changed = pin!(self.changed.notified());
                changed.as_mut().enable();
                if !self.is_lost() {
                    return;
                }
                changed.await;
            }
        };
        tokio::select! {
            biased;
            () = opened => Ok(()),
            () = self.clock.sleep(DEADLINE) => {
                Err(FsError::TimedOut("a new session".to_string()))
            }
        }
    }
}
