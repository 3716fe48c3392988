//! A connected peer, and the callbacks that the server sends to it.

use crate::frame::{Flags, pack};
use crate::framed_stream::FramedStream;
use crate::handshake::{AcceptedPeer, PeerIdentity};
use crate::load::ConnectionLoads;
use crate::peer::{Peer, ReplyFuture, Transport};
use crate::pending_requests::{PendingRequests, RequestHandling};
use gupfs_platform::BootTime;
use gupfs_proto::FsError;
use gupfs_proto::wire::{Message, MessageKind, ReplyMessage};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The other side of an accepted connection, after its handshake.
pub struct ConnectedPeer {
    identity: PeerIdentity,
    number: u64,
    since: BootTime,
    pub(crate) framed: Arc<FramedStream>,
    pub(crate) loads: ConnectionLoads,
    /// Callbacks without a reply.
    pub(crate) callbacks: PendingRequests,
    /// Malformed requests of this peer.
    malformed: AtomicU64,
    /// The peer has sent a request that its role must not send.
    sent_forbidden: AtomicBool,
}

/// A connected peer as `gupfs status` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ConnectedPeerStatus {
    pub role: &'static str,
    pub name: String,
    #[serde(rename = "from")]
    pub address: String,
    pub number: u64,
    #[serde(rename = "questions")]
    pub requests: usize,
    pub for_ms: u64,
    /// Time since the last received byte.
    pub silent_ms: u64,
}

impl ConnectedPeer {
    pub(crate) fn new(
        accepted: AcceptedPeer,
        since: BootTime,
        framed: Arc<FramedStream>,
        loads: ConnectionLoads,
    ) -> ConnectedPeer {
        ConnectedPeer {
            identity: accepted.identity,
            number: accepted.number,
            since,
            framed,
            loads,
            callbacks: PendingRequests::default(),
            malformed: AtomicU64::new(0),
            sent_forbidden: AtomicBool::new(false),
        }
    }

    /// The identity that the peer showed in the handshake.
    pub fn identity(&self) -> &PeerIdentity {
        &self.identity
    }

    /// The number of this connection among those of the same process.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn since(&self) -> BootTime {
        self.since
    }

    /// Counts one more malformed request; returns their number.
    pub(crate) fn count_malformed(&self) -> u64 {
        self.malformed.fetch_add(1, Relaxed) + 1
    }

    /// "host:port" of the peer.
    pub fn address(&self) -> &str {
        self.framed.stream().peer_address()
    }

    /// Whether the peer is on this host.
    pub fn is_local(&self) -> bool {
        self.framed.stream().is_local()
    }

    /// Records that the peer sent a request that its role must not send; whether it is the first: the log gets one line per
    /// connection.
    pub(crate) fn note_forbidden(&self) -> bool {
        !self.sent_forbidden.swap(true, Relaxed)
    }

    /// Whether the handshake negotiated messages of this version.
    pub fn accepts_version(&self, kind: MessageKind, version: u8) -> bool {
        self.framed.accepts(kind, version)
    }

    /// Whether the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.framed.is_closed()
    }

    /// Returns when the connection is closed.
    pub async fn wait_closed(&self) {
        self.framed.wait_closed().await;
    }

    /// Closes the connection. Running requests continue, and their replies are dropped.
    pub fn close(&self) {
        self.framed.close();
        let gone = FsError::TimedOut(format!("{}: it disconnected", self.identity.name));
        self.callbacks.fail_all(&gone);
    }

    /// A handle for callbacks to this peer. After the connection has closed every callback fails with `TimedOut`.
    pub fn peer<Q: Message, A: ReplyMessage>(self: &Arc<Self>) -> Peer<Q, A> {
        let newest = self.framed.newest_version(Q::KIND);
        Peer::with_transport(Arc::new(CallbackTransport(self.clone()))).with_newest_version(newest)
    }

    pub(crate) fn status(&self, now: BootTime) -> ConnectedPeerStatus {
        ConnectedPeerStatus {
            role: self.identity.role.name(),
            name: self.identity.name.clone(),
            address: self.address().to_string(),
            number: self.number,
            requests: self.loads.connection.requests(),
            for_ms: age_ms(now, self.since),
            silent_ms: age_ms(now, self.framed.last_received()),
        }
    }
}

fn age_ms(now: BootTime, since: BootTime) -> u64 {
    now.since(since).as_millis() as u64
}

struct CallbackTransport(Arc<ConnectedPeer>);

impl<Q: Message, A: ReplyMessage> Transport<Q, A> for CallbackTransport {
    fn call(&self, request: Q) -> ReplyFuture<A> {
        let peer = self.0.clone();
        let number = peer.callbacks.next_id();
        let packed = match pack(Q::KIND, Flags::empty(), number, request.encode()) {
            Ok(packed) => packed,
            Err(error) => {
                let error =
                    FsError::Malformed(format!("a callback to {}: {error}", peer.identity.name));
                return Box::pin(std::future::ready(A::from_error(error)));
            }
        };
        let handling = RequestHandling {
            fenced: false,
            is_sent_once: false,
        };
        peer.callbacks
            .insert(number, packed.clone(), None, handling);
        peer.framed.send(packed);
        if peer.is_closed() {
            peer.close();
        }
        Box::pin(async move {
            let guard = CallbackGuard { peer, number };
            let outcome = std::future::poll_fn(|cx| guard.peer.callbacks.poll(number, cx)).await;
            outcome.into_reply()
        })
    }
}

/// Cancels the callback when its future is dropped.
struct CallbackGuard {
    peer: Arc<ConnectedPeer>,
    number: u64,
}

impl Drop for CallbackGuard {
    fn drop(&mut self) {
        self.peer.callbacks.cancel(self.number);
    }
}
