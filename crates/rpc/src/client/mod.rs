//! # client: a reconnecting connection to one server
//!
//! Owns   connecting and reconnecting, the table of pending requests, resending them with the same ids.
//! Never  gives up a request by itself, unless the options have a request timeout.
//! Enter  at `ClientConnection::connect`, then `ClientConnection::peer`.

mod connect;
mod connect_error;
mod establish;
#[cfg(test)]
mod former_server_tests;
mod options;
mod race;
mod reply_waiter;
mod timers;

pub use connect_error::{AddressFailures, ConnectError};
pub use options::ClientConnectionOptions;

use crate::frame::{Flags, PackedFrame, pack};
use crate::framed_stream::FramedStream;
use crate::handshake::PeerIdentity;
use crate::peer::{Peer, ReplyFuture, Transport};
use crate::pending_requests::{PendingRequests, RequestHandling, RequestOutcome};
use gupfs_platform::{BootTime, Task};
use gupfs_proto::FsError;
use gupfs_proto::wire::{Message, ReplyMessage};
use parking_lot::Mutex;
use reply_waiter::ReplyWaiter;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// A connection to a server that reconnects whenever it breaks, until it is dropped.
pub struct ClientConnection {
    shared: Arc<Shared>,
    tasks: [Task<()>; 2],
}

pub(crate) struct Shared {
    pub options: ClientConnectionOptions,
    pub pending: PendingRequests,
    pub state: Mutex<ConnectionState>,
    /// Notified when the state changed.
    pub changed: Notify,
}

pub(crate) struct ConnectionState {
    /// The current stream and its connection number; None while disconnected.
    pub framed: Option<(Arc<FramedStream>, u64)>,
    pub number: u64,
    pub server: Option<PeerIdentity>,
    /// Why the last attempt to connect failed; None while connected.
    pub failure: Option<Arc<ConnectError>>,
    pub since: BootTime,
    /// The address of the current or the last connection.
    pub address: Option<String>,
    /// By address of the server: the IP address of the last attempt, until a handshake succeeds. The next attempt tries the host's other
    /// addresses first.
    pub failed_addresses: BTreeMap<String, String>,
    pub closed: bool,
}

/// A client connection as `gupfs status` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ClientConnectionStatus {
    #[serde(rename = "whom")]
    pub peer_name: String,
    /// The address of the connection; while there is none, all known addresses, with commas between them.
    #[serde(rename = "to")]
    pub address: String,
    pub connected: bool,
    /// How long it has been in this state.
    pub for_ms: u64,
    /// Why it is not connected.
    #[serde(rename = "why_not")]
    pub last_error: Option<String>,
    /// Connections made so far, those that a server rejected included.
    pub connections: u64,
    /// Requests without a reply.
    #[serde(rename = "open_questions")]
    pub pending_requests: usize,
}

impl ClientConnection {
    /// Starts to connect, and keeps trying until this object is dropped.
    pub fn connect(options: ClientConnectionOptions) -> Arc<ClientConnection> {
        let tasks = options.platform.tasks.clone();
        let since = options.platform.clock.boot();
        let shared = Arc::new(Shared {
            options,
            pending: PendingRequests::default(),
            state: Mutex::new(ConnectionState {
                framed: None,
                number: 0,
                server: None,
                failure: None,
                since,
                address: None,
                failed_addresses: BTreeMap::new(),
                closed: false,
            }),
            changed: Notify::new(),
        });
        let connections = tasks.spawn("client connection", connect::keep_connected(shared.clone()));
        let clock = tasks.spawn(
            "client connection timers",
            timers::check_deadlines(shared.clone()),
        );
        Arc::new(ClientConnection {
            shared,
            tasks: [connections, clock],
        })
    }

    /// Waits for the first connection.
    ///
    /// # Errors
    /// The server rejected the connection permanently, or there is no connection after `timeout`.
    pub async fn wait_connected(
        &self,
        timeout: Duration,
    ) -> Result<PeerIdentity, Arc<ConnectError>> {
        self.wait_connected_unless(timeout, |_| false).await
    }

    /// Waits for the first connection, but not for later attempts: until an attempt at each known address has failed.
    ///
    /// # Errors
    /// Those attempts failed, the server rejected the connection permanently, or there is no connection after `timeout`.
    pub async fn wait_first_attempt(
        &self,
        timeout: Duration,
    ) -> Result<PeerIdentity, Arc<ConnectError>> {
        let addresses = &self.shared.options.addresses;
        let have_all_failed = |failure: &ConnectError| match failure {
            ConnectError::AtAddresses(failed) => failed.failures.len() >= addresses.all().len(),
            _ => !addresses.are_several(),
        };
        self.wait_connected_unless(timeout, have_all_failed).await
    }

    /// Waits for the first connection, until `is_last` of a failure.
    async fn wait_connected_unless(
        &self,
        timeout: Duration,
        is_last: impl Fn(&ConnectError) -> bool,
    ) -> Result<PeerIdentity, Arc<ConnectError>> {
        let shared = &self.shared;
        let until = shared.options.platform.clock.boot() + timeout;
        loop {
            let mut changed = std::pin::pin!(shared.changed.notified());
            changed.as_mut().enable();
            {
                let state = shared.state.lock();
                if let (Some(_), Some(server)) = (&state.framed, &state.server) {
                    return Ok(server.clone());
                }
                if let Some(failure) = &state.failure
                    && (failure.is_permanent()
                        || is_last(failure)
                        || shared.options.platform.clock.boot() >= until)
                {
                    return Err(failure.clone());
                }
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = shared.options.platform.clock.sleep_until(until) => {
                    let mut state = shared.state.lock();
                    state.failure.get_or_insert_with(|| Arc::new(ConnectError::TimedOut));
                }
            }
        }
    }

    /// A handle to the server for requests `Q` with replies `A`. A request that the connected server is too old to understand fails
    /// with `NotSupported`.
    pub fn peer<Q: Message, A: ReplyMessage>(self: &Arc<Self>) -> Peer<Q, A> {
        Peer::with_transport(self.clone())
    }

    /// The state of the connection now.
    pub fn status(&self) -> ClientConnectionStatus {
        let shared = &self.shared;
        let state = shared.state.lock();
        ClientConnectionStatus {
            peer_name: shared.options.peer_name.clone(),
            address: shared.address(&state),
            connected: state.framed.is_some(),
            for_ms: shared
                .options
                .platform
                .clock
                .boot()
                .since(state.since)
                .as_millis() as u64,
            last_error: state.failure.as_ref().map(|why| why.to_string()),
            connections: state.number,
            pending_requests: shared.pending.len(),
        }
    }

    /// The identity of the connected server; None while disconnected.
    pub fn server(&self) -> Option<PeerIdentity> {
        let state = self.shared.state.lock();
        state.framed.as_ref().and(state.server.clone())
    }

    /// The local address of the connection: other hosts on the server's network reach this host under it. None while
    /// disconnected.
    pub fn local_address(&self) -> Option<String> {
        let state = self.shared.state.lock();
        let framed = state.framed.as_ref();
        framed.map(|(framed, _)| framed.stream().local_address().to_string())
    }

    /// The number of the current connection, from 1 on; 0 while disconnected.
    pub fn connection_number(&self) -> u64 {
        let state = self.shared.state.lock();
        state.framed.as_ref().map_or(0, |(_, number)| *number)
    }

    /// Returns when the current connection's number is not `former` any more.
    pub async fn wait_connection_changed(&self, former: u64) {
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            if self.connection_number() != former {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.stop();
        }
        self.shared.close("this process closed the connection");
    }
}

impl<Q: Message, A: ReplyMessage> Transport<Q, A> for ClientConnection {
    fn call(&self, request: Q) -> ReplyFuture<A> {
        let waiter = self.shared.clone().start_request(request);
        Box::pin(async move {
            let outcome = match waiter {
                Ok(waiter) => waiter.await,
                Err(error) => RequestOutcome::Failed(error),
            };
            outcome.into_reply()
        })
    }
}

impl Shared {
    fn start_request<Q: Message>(self: Arc<Self>, request: Q) -> Result<ReplyWaiter, FsError> {
        tracing::trace!(target: "walk", file = file!(), "start_request");
        let options = &self.options;
        let deadline = options
            .request_timeout
            .map(|timeout| options.platform.clock.boot() + timeout);
        let number = self.pending.next_id();
        let handling = RequestHandling {
            fenced: request.must_be_fenced(),
            is_sent_once: !request.may_be_repeated(),
        };
        let packed = pack(Q::KIND, Flags::empty(), number, request.encode()).map_err(|error| {
            FsError::Malformed(format!("a request to {}: {error}", options.peer_name))
        })?;
        self.pending.insert(number, packed, deadline, handling);
        let (framed, failure) = {
            let state = self.state.lock();
            if state.closed {
                (None, Some(FsError::TimedOut(options.peer_name.clone())))
            } else {
                (state.framed.clone(), None)
            }
        };
        if let Some(error) = failure {
            self.pending.complete(number, RequestOutcome::Failed(error));
        }
        if let Some((framed, connection)) = framed
            && let Some(packed) = self.pending.take_unsent(number, connection)
        {
            self.send_or_fail(&framed, packed);
        }
        Ok(ReplyWaiter::new(self, number))
    }

    /// Sends the pending requests that were not sent over this connection yet.
    pub(crate) fn send_unsent(&self, framed: &FramedStream, connection: u64) {
        for packed in self.pending.take_all_unsent(connection) {
            self.send_or_fail(framed, packed);
        }
    }

    /// Sends a request, or fails it if the handshake negotiated a version that does not have it: the server would close the
    /// connection.
    fn send_or_fail(&self, framed: &FramedStream, packed: PackedFrame) {
        let (kind, version) = packed.kind_and_version();
        match framed.accepts(kind, version) {
            true => framed.send(packed),
            false => {
                let outcome = RequestOutcome::Failed(FsError::NotSupported);
                self.pending.complete(packed.id(), outcome);
            }
        }
    }

    pub(crate) fn close(&self, why: &str) {
        let framed = {
            let mut state = self.state.lock();
            state.closed = true;
            state.framed.take()
        };
        if let Some((framed, _)) = framed {
            framed.close();
        }
        let server = &self.options.peer_name;
        self.pending
            .fail_all(&FsError::TimedOut(format!("{server}: {why}")));
        self.changed.notify_waiters();
    }

    /// Closes the connection after a request that was sent was cancelled, if the options demand it: the server must end that
    /// request before it accepts another one.
    pub(crate) fn close_if_fenced(&self) {
        if !self.options.fence {
            return;
        }
        let state = self.state.lock();
        if let Some((framed, _)) = &state.framed {
            framed.close();
        }
    }

    /// The error of a request that timed out, with the reason of the missing connection.
    pub(crate) fn timeout_error(&self) -> FsError {
        let state = self.state.lock();
        let (server, address) = (&self.options.peer_name, self.address(&state));
        FsError::TimedOut(match state.failure.as_deref() {
            Some(why @ ConnectError::AtAddresses(_)) => format!("{server} {why}"),
            Some(why) => format!("{server} at {address}: {why}"),
            None => format!("{server} at {address}"),
        })
    }

    fn current_address(&self) -> String {
        self.address(&self.state.lock())
    }

    /// The address of the connection; while there is none, all known ones.
    fn address(&self, state: &ConnectionState) -> String {
        match (&state.framed, &state.address) {
            (Some(_), Some(address)) => address.clone(),
            _ => self.options.addresses.all().join(", "),
        }
    }

    /// Records why there is no connection. A permanent error ends all pending requests.
    fn record_failure(&self, failure: Arc<ConnectError>) {
        let is_permanent = failure.is_permanent();
        let mut state = self.state.lock();
        state.framed = None;
        if state.failure.is_none() {
            state.since = self.options.platform.clock.boot();
        }
        state.failure = Some(failure);
        drop(state);
        self.changed.notify_waiters();
        if is_permanent {
            self.pending.fail_all(&self.timeout_error());
        }
    }
}
