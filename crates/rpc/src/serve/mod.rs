//! # serve: accepts connections and handles their requests
//!
//! Owns   listening, the table of connected peers, the rule of one connection per process, the limits on concurrent requests; holding
//!        the connections of peers that may not use the server yet.
//! Never  knows what a request means, or accepts a request of a new fenced connection before the requests of the previous one
//!        ended.
//! Enter  at `RpcServer::start`.

mod admission;
mod authenticate;
mod connection;
mod connections;
mod frames;
#[cfg(test)]
mod malformed_input_tests;

pub use admission::{Admission, AdmissionFuture, AdmitAll, Admitted};

use crate::client_key::ClientKeyList;
use crate::connected_peer::{ConnectedPeer, ConnectedPeerStatus};
use crate::handler::Handlers;
use crate::handshake::{Acceptor, LocalIdentity};
use crate::key::ClusterKey;
use crate::send_deadline::SendDeadline;
use crate::tls::TlsConfig;
use crate::unauthenticated::{
    Origin, RejectionLog, UnauthenticatedConnections, UnauthenticatedLimits,
};
use connections::{ConnectionTable, ServerLoad};
use gupfs_platform::{Listener, Platform, Task};
use gupfs_proto::ClusterId;
use parking_lot::Mutex;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// The identity, keys, handlers and limits of a server.
pub struct RpcServerOptions {
    pub platform: Platform,
    pub identity: LocalIdentity,
    pub cluster: ClusterId,
    /// None: the server accepts every peer that can reach its address.
    pub key: Option<ClusterKey>,
    /// The client keys that the server accepts from hosts that only mount.
    pub client_keys: Arc<dyn ClientKeyList>,
    /// None: connections are not encrypted. Otherwise the server requires TLS, and this needs a server certificate.
    pub tls: Option<TlsConfig>,
    pub handlers: Handlers,
    pub observer: Arc<dyn ConnectionObserver>,
    pub capacity: Capacity,
    /// Which authenticated peers may use the server now: `AdmitAll`, unless it has copies.
    pub admission: Arc<dyn Admission>,
    /// Until when it may send to clients and object servers. At the deadline it closes their connections, and sends nothing that is queued.
    /// Connections of metadata servers have no deadline.
    pub send_deadline: SendDeadline,
}

/// Largest numbers of open connections. Each holds a descriptor, and the process needs descriptors for its own files too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    pub clients: usize,
    /// Connections of servers and of monitoring commands, beside those of clients: the administrator of a full server must be
    /// able to connect. At this limit the server closes the oldest connection of a monitoring command.
    pub others: usize,
    /// Unauthenticated connections. A quarter of them is reserved for addresses that have proved a key before.
    pub unauthenticated: usize,
}

impl Capacity {
    /// The capacity for this many clients, with the smallest limits for all other connections.
    pub const fn for_clients(clients: usize) -> Capacity {
        Capacity {
            clients,
            others: 32,
            unauthenticated: 24,
        }
    }

    /// Authenticated connections, with the closed ones whose requests have not ended.
    pub const fn authenticated(self) -> usize {
        self.clients + 2 * self.others
    }

    /// Descriptors for all connections: an evicted connection holds its descriptor for a moment while its successor has one
    /// already.
    pub const fn descriptors(self) -> usize {
        self.authenticated() + 2 * self.unauthenticated
    }
}

/// Observes which peers connect and disconnect.
pub trait ConnectionObserver: Send + Sync + 'static {
    fn connected(&self, _caller: &Arc<ConnectedPeer>) {}
    fn disconnected(&self, _caller: &Arc<ConnectedPeer>) {}
}

/// Observes nothing.
pub struct NoObserver;
impl ConnectionObserver for NoObserver {}

/// A server that listens until it is stopped or dropped.
pub struct RpcServer {
    inner: Arc<Inner>,
    accepting: Task<()>,
    address: String,
}

pub(crate) struct Inner {
    platform: Platform,
    acceptor: Acceptor,
    tls: Option<TlsConfig>,
    handlers: Handlers,
    observer: Arc<dyn ConnectionObserver>,
    admission: Arc<dyn Admission>,
    send_deadline: SendDeadline,
    /// It accepts no peer any more, not even one whose handshake is under way.
    is_stopped: AtomicBool,
    connections: ConnectionTable,
    load: ServerLoad,
    unauthenticated: Arc<UnauthenticatedConnections>,
    rejected: RejectionCount,
    /// Authenticated connections that were closed because of invalid frames.
    protocol_errors: RejectionCount,
    rejection_log: Mutex<RejectionLog>,
}

/// A count of connections that were rejected or closed for one kind of reason, and the last of them.
#[derive(Default)]
struct RejectionCount {
    count: AtomicU64,
    last: Mutex<Option<String>>,
}

/// A server as `gupfs status` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RpcServerStatus {
    pub address: String,
    pub connections: Vec<ConnectedPeerStatus>,
    /// Connections whose handshake is not over.
    #[serde(rename = "strangers")]
    pub unauthenticated: usize,
    /// Requests that are running, and bytes that they and unfinished frames hold.
    #[serde(rename = "questions")]
    pub requests: usize,
    pub payload: usize,
    /// Requests with the reply "busy" since the start.
    pub busy: u64,
    /// Connections rejected since the start, and why the last one was.
    #[serde(rename = "turned_away")]
    pub rejected: u64,
    #[serde(rename = "last_turned_away")]
    pub last_rejected: Option<String>,
    /// Authenticated connections closed since the start because of invalid frames, and why the last one was.
    #[serde(rename = "misspoken")]
    pub protocol_errors: u64,
    #[serde(rename = "last_misspoken")]
    pub last_protocol_error: Option<String>,
}

impl RpcServer {
    /// Accepts connections from `listener` until the server is stopped or dropped.
    pub fn start(listener: Listener, options: RpcServerOptions) -> RpcServer {
        let address = listener.address();
        let load = ServerLoad::default();
        let capacity = options.capacity;
        let limits = UnauthenticatedLimits {
            all: capacity.unauthenticated,
            for_known: capacity.unauthenticated / 4,
        };
        let inner = Arc::new(Inner {
            platform: options.platform.clone(),
            acceptor: Acceptor {
                identity: options.identity,
                cluster: options.cluster,
                key: options.key,
                client_keys: options.client_keys,
            },
            tls: options.tls,
            handlers: options.handlers,
            observer: options.observer,
            admission: options.admission,
            send_deadline: options.send_deadline,
            is_stopped: AtomicBool::new(false),
            connections: ConnectionTable::new(capacity, load.clone()),
            load,
            unauthenticated: UnauthenticatedConnections::new(
                options.platform.clock.clone(),
                limits,
            ),
            rejected: RejectionCount::default(),
            protocol_errors: RejectionCount::default(),
            rejection_log: Mutex::default(),
        });
        let accepting = options
            .platform
            .tasks
            .spawn("accept", accept(inner.clone(), listener));
        RpcServer {
            inner,
            accepting,
            address,
        }
    }

    /// The address on which it listens, with the actual port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The connected peers.
    pub fn peers(&self) -> Vec<Arc<ConnectedPeer>> {
        self.inner.connections.all()
    }

    /// The server's connections and counters now.
    pub fn status(&self) -> RpcServerStatus {
        let now = self.inner.platform.clock.boot();
        let connections = self.inner.connections.all();
        RpcServerStatus {
            address: self.address.clone(),
            connections: connections.iter().map(|peer| peer.status(now)).collect(),
            unauthenticated: self.inner.unauthenticated.count(),
            requests: self.inner.load.requests(),
            payload: self.inner.load.bytes(),
            busy: self.inner.load.busy(),
            rejected: self.inner.rejected.count.load(Relaxed),
            last_rejected: self.inner.rejected.last.lock().clone(),
            protocol_errors: self.inner.protocol_errors.count.load(Relaxed),
            last_protocol_error: self.inner.protocol_errors.last.lock().clone(),
        }
    }

    /// Stops listening and closes all connections.
    pub fn stop(&self) {
        self.accepting.stop();
        // Before the connections are closed: one that is not in the table yet finds it.
        self.inner.is_stopped.store(true, SeqCst);
        for peer in self.inner.connections.all() {
            peer.close();
        }
    }
}

impl Drop for RpcServer {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn accept(inner: Arc<Inner>, listener: Listener) {
    loop {
        match listener.accept().await {
            Ok(stream) => {
                let (origin, evicted) = (Origin::of(stream.peer_address()), stream.clone());
                let close = move || evicted.close();
                let guard = inner.unauthenticated.admit(origin, close).await;
                let serving = connection::serve_connection(inner.clone(), stream, guard);
                inner.platform.tasks.spawn("connection", serving);
            }
            Err(error) => {
                // Usually too many open files: retry, because other connections close.
                tracing::warn!(%error, "cannot accept a connection; retrying");
                inner.platform.clock.sleep(crate::limits::RETRY_MAX).await;
            }
        }
    }
}

impl Inner {
    fn log_protocol_error(&self, from: &str, why: &str) {
        let what = "connection closed: the peer sent invalid frames";
        self.log_rejection(&self.protocol_errors, from, why, what);
    }

    fn log_rejected(&self, from: &str, why: &dyn std::fmt::Display) {
        let what = "connection rejected";
        self.log_rejection(&self.rejected, from, &why.to_string(), what);
    }

    /// Counts every one; logs one line per minute and origin.
    fn log_rejection(&self, counter: &RejectionCount, from: &str, why: &str, what: &str) {
        counter.count.fetch_add(1, Relaxed);
        let now = self.platform.clock.boot();
        let suppressed = self.rejection_log.lock().should_log(&Origin::of(from), now);
        match suppressed {
            Some(0) => tracing::warn!(from, why, "{what}"),
            Some(suppressed) => {
                tracing::warn!(
                    from,
                    why,
                    "{what}; {suppressed} earlier ones from this address are not logged"
                );
            }
            None => tracing::debug!(from, why, "{what}"),
        }
        *counter.last.lock() = Some(format!("{from}: {why}"));
    }
}
