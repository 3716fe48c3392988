//! Callbacks to sessions: the connections over which the server calls its clients, and the sessions that it cannot call now.

use crate::limits::RETRY;
use crate::shard::SessionTable;
use gupfs_platform::Clock;
use gupfs_proto::callback::{CallbackReply, CallbackReplyBody, CallbackRequest};
use gupfs_proto::{FsError, SessionId};
use gupfs_rpc::Peer;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use tokio::sync::Notify;

/// A client as the receiver of callbacks.
pub type CallbackPeer = Peer<CallbackRequest, CallbackReply>;

pub struct CallbackTable {
    sessions: SessionTable,
    clock: Clock,
    channels: Mutex<CallbackChannels>,
    /// Signals that a session can be called, or that it never can be again.
    changed: Notify,
}

#[derive(Default)]
struct CallbackChannels {
    /// Each connection has a number that tells it from the session's connection before.
    of_session: BTreeMap<SessionId, (u64, CallbackPeer)>,
    next_number: u64,
    /// Sessions that ended and whose cleanup is under way: it recovers their files in a moment.
    ending: BTreeSet<SessionId>,
}

/// Whether a callback can reach a session.
enum Reachability {
    /// The session has ended, and its cleanup is complete if the callback waits for that.
    Ended,
    /// The callback waits for the session's cleanup, or the session has no connection.
    Unreachable,
    Connected(u64, CallbackPeer),
}

/// How long a callback waits for a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Liveness {
    UntilCleanedUp,
    WhileRegistered,
}

/// The outcome of a callback.
pub enum CallbackOutcome {
    Reply(CallbackReplyBody),
    /// The session has ended: the state of its files is what their objects say, or what is recorded.
    SessionEnded,
}

impl CallbackTable {
    pub fn new(sessions: SessionTable, clock: Clock) -> CallbackTable {
        CallbackTable {
            sessions,
            clock,
            channels: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Registers the connection for callbacks to a session.
    pub fn attach(&self, session: SessionId, peer: CallbackPeer) {
        let mut channels = self.channels.lock();
        channels.next_number += 1;
        let number = channels.next_number;
        channels.of_session.insert(session, (number, peer));
        drop(channels);
        self.changed.notify_waiters();
    }

    /// The session's connection is gone.
    pub fn detach(&self, session: SessionId) {
        self.channels.lock().of_session.remove(&session);
        self.changed.notify_waiters();
    }

    /// The session has ended; called at the moment when the server unregisters it.
    pub fn begin_cleanup(&self, session: SessionId) {
        let mut channels = self.channels.lock();
        channels.of_session.remove(&session);
        channels.ending.insert(session);
        drop(channels);
        self.changed.notify_waiters();
    }

    /// The session's cleanup has done what it could.
    pub fn finish_cleanup(&self, session: SessionId) {
        self.channels.lock().ending.remove(&session);
        self.changed.notify_waiters();
    }

    /// Whether the session's client understands `CallbackRequest::Downgrade`.
    pub fn takes_downgrades(&self, session: SessionId) -> bool {
        let channels = self.channels.lock();
        let peer = channels.of_session.get(&session).map(|(_, peer)| peer);
        peer.is_some_and(|peer| peer.accepts_version(CallbackRequest::DOWNGRADE_SINCE))
    }

    /// The connected sessions' clients that understand this version of the CALLBACK protocol.
    pub fn connected_peers(&self, version: u8) -> Vec<CallbackPeer> {
        let channels = self.channels.lock();
        let peers = channels.of_session.values().map(|(_, peer)| peer);
        peers
            .filter(|peer| peer.accepts_version(version))
            .cloned()
            .collect()
    }

    /// Whether the session has a connection.
    pub fn is_connected(&self, session: SessionId) -> bool {
        self.number(session).is_some()
    }

    /// Whether the cleanup of any ended session is not complete yet.
    pub fn is_cleanup_pending(&self) -> bool {
        !self.channels.lock().ending.is_empty()
    }

    fn number(&self, session: SessionId) -> Option<u64> {
        let channels = self.channels.lock();
        channels.of_session.get(&session).map(|(number, _)| *number)
    }

    /// Calls a session as soon as it can be reached, until it replies or has ended and its cleanup is complete. Has no deadline of its
    /// own.
    ///
    /// # Errors
    /// `TargetDown`: the session needs an OST for its reply and cannot reach it.
    pub async fn send_callback(
        &self,
        session: SessionId,
        request: &CallbackRequest,
    ) -> Result<CallbackOutcome, FsError> {
        tracing::trace!(target: "walk", file = file!(), "send_callback");
        self.call_while(Liveness::UntilCleanedUp, session, request)
            .await
    }

    /// As `send_callback`, but returns as soon as the session is not registered. For callbacks that the cleanup of a session waits for:
    /// that cleanup must not wait for itself.
    pub async fn send_while_registered(
        &self,
        session: SessionId,
        request: &CallbackRequest,
    ) -> Result<CallbackOutcome, FsError> {
        tracing::trace!(target: "walk", file = file!(), "send_while_registered");
        self.call_while(Liveness::WhileRegistered, session, request)
            .await
    }

    async fn call_while(
        &self,
        liveness: Liveness,
        session: SessionId,
        request: &CallbackRequest,
    ) -> Result<CallbackOutcome, FsError> {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let (number, peer) = match self.reachability(session, liveness) {
                Reachability::Ended => return Ok(CallbackOutcome::SessionEnded),
                Reachability::Unreachable => {
                    changed.await;
                    continue;
                }
                Reachability::Connected(number, peer) => (number, peer),
            };
            let mut call = pin!(peer.call(request.clone()));
            let reply = loop {
                tokio::select! {
                    biased;
                    reply = &mut call => break Some(reply),
                    () = &mut changed => {}
                }
                changed.set(self.changed.notified());
                changed.as_mut().enable();
                if self.number(session) != Some(number) {
                    break None;
                }
            };
            match reply {
                // The connection was replaced, or it is gone: the next one carries the callback.
                None => {}
                Some(Ok(reply_body)) => return Ok(CallbackOutcome::Reply(reply_body)),
                Some(Err(error @ FsError::TargetDown { .. })) => return Err(error),
                Some(Err(error)) => {
                    tracing::info!(%session, %error, request = request.name(), "a session failed a callback; the callback is sent again");
                    tokio::select! {
                        biased;
                        () = &mut changed => {}
                        () = self.clock.sleep(RETRY) => {}
                    }
                }
            }
        }
    }

    fn reachability(&self, session: SessionId, liveness: Liveness) -> Reachability {
        let registered = self.sessions.is_registered(session);
        let channels = self.channels.lock();
        match channels.of_session.get(&session) {
            Some((number, peer)) if registered => Reachability::Connected(*number, peer.clone()),
            _ if registered => Reachability::Unreachable,
            _ if liveness == Liveness::UntilCleanedUp && channels.ending.contains(&session) => {
                Reachability::Unreachable
            }
            _ => Reachability::Ended,
        }
    }
}
