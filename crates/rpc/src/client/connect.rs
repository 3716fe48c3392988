//! Establishes the streams of a client connection, one after the other.

use super::Shared;
use crate::frame::{Flags, Frame, FrameLimits, Head, pack};
use crate::framed_stream::{FrameReader, FramedStream, FramedStreamError};
use crate::handler::RequestSource;
use crate::handshake::{HandshakeError, HandshakeOptions, PeerIdentity, connect_handshake};
use crate::limits::{CONNECT_TIMEOUT, PING_INTERVAL, RETRY_MAX, RETRY_MIN};
use crate::pending_requests::RequestOutcome;
use crate::tls::{MaybeTlsStream, TlsError};
use gupfs_proto::FsError;
use gupfs_proto::wire::MessageKind;
use std::sync::Arc;
use std::time::Duration;

/// Why a client connection is not connected.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot connect: {0}")]
    Connect(std::io::Error),
    #[error(transparent)]
    Handshake(HandshakeError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the server does not respond")]
    TimedOut,
    /// An established connection ended for this reason.
    #[error("{0}")]
    Lost(String),
}

impl ConnectError {
    /// A new attempt fails too until the administrator has changed something.
    pub fn is_permanent(&self) -> bool {
        match self {
            ConnectError::Handshake(error) => error.is_permanent(),
            ConnectError::Tls(_) => true,
            _ => false,
        }
    }
}

pub(super) async fn keep_connected(shared: Arc<Shared>) {
    let platform = shared.options.platform.clone();
    let mut pause = RETRY_MIN;
    loop {
        let established = tokio::select! {
            biased;
            established = establish(&shared) => established,
            () = platform.clock.sleep(CONNECT_TIMEOUT) => Err(ConnectError::TimedOut),
        };
        let failure = match established {
            Ok(connection) => {
                let started = platform.clock.boot();
                let reason = run_connection(&shared, connection).await;
                // The pause is reset only after a connection that lasted: one that breaks at once is not retried fifty times a
                // second.
                if platform.clock.boot().since(started) >= PING_INTERVAL {
                    pause = RETRY_MIN;
                }
                ConnectError::Lost(reason)
            }
            Err(failure) => failure,
        };
        let is_permanent = failure.is_permanent();
        tracing::debug!(server = shared.options.peer_name, address = shared.options.address, %failure, "no connection");
        record_failure(&shared, failure);
        if is_permanent {
            shared.pending.fail_all(&shared.timeout_error());
        }
        platform.clock.sleep(pause).await;
        pause = (pause * 2).min(RETRY_MAX);
    }
}

struct EstablishedConnection {
    framed: CloseOnDrop,
    reader: FrameReader,
    number: u64,
    server: PeerIdentity,
}

/// Connects and performs the handshake.
async fn establish(shared: &Shared) -> Result<EstablishedConnection, ConnectError> {
    let options = &shared.options;
    // An address whose handshake failed is tried after the other addresses of the host name.
    let failed_address = shared.state.lock().failed_address.take();
    let stream = (options.net)
        .connect_after(&options.address, failed_address.as_deref())
        .await;
    let stream = stream.map_err(ConnectError::Connect)?;
    shared.state.lock().failed_address = Some(stream.peer_address().to_string());
    let stream = match &options.tls {
        Some(tls) => MaybeTlsStream::tls(stream, tls.connect(&options.address)?),
        None => MaybeTlsStream::Plain(stream),
    };
    let framed = CloseOnDrop(Arc::new(FramedStream::new(
        stream,
        options.platform.clock.clone(),
    )));
    let number = {
        let mut state = shared.state.lock();
        state.number += 1;
        state.number
    };
    let mut reader = framed.0.reader();
    let handshake = connect_handshake(
        &framed.0,
        &mut reader,
        &options.platform.random,
        &options.identity,
        HandshakeOptions {
            number,
            cluster: options.cluster,
            key: options.key.as_ref(),
            fenced: options.fence,
        },
    );
    // Handshake messages may wait for space in the socket buffer too.
    let server = tokio::select! {
        biased;
        server = handshake => server.map_err(ConnectError::Handshake)?,
        () = framed.0.flush() => return Err(ConnectError::Lost("the connection ended".into())),
    };
    Ok(EstablishedConnection {
        framed,
        reader,
        number,
        server,
    })
}

/// Uses an established connection until it ends; returns why it ended.
async fn run_connection(shared: &Arc<Shared>, connection: EstablishedConnection) -> String {
    let EstablishedConnection {
        framed,
        mut reader,
        number,
        server,
    } = connection;
    set_connected(shared, &framed.0, number, server);
    let reason = tokio::select! {
        biased;
        reason = read_frames(shared, &framed.0, &mut reader) => reason,
        () = framed.0.flush() => "the connection ended".to_string(),
    };
    shared.state.lock().framed = None;
    reason
}

/// Closes the stream on every path out of its connection.
struct CloseOnDrop(Arc<FramedStream>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn set_connected(
    shared: &Arc<Shared>,
    framed: &Arc<FramedStream>,
    number: u64,
    server: PeerIdentity,
) {
    tracing::debug!(
        server = shared.options.peer_name,
        address = shared.options.address,
        number,
        "connected"
    );
    {
        let mut state = shared.state.lock();
        state.framed = Some((framed.clone(), number));
        state.server = Some(server);
        state.failure = None;
        state.failed_address = None;
        state.since = shared.options.platform.clock.boot();
    }
    shared.send_unsent(framed, number);
    shared.changed.notify_waiters();
}

fn record_failure(shared: &Shared, failure: ConnectError) {
    let mut state = shared.state.lock();
    state.framed = None;
    if state.failure.is_none() {
        state.since = shared.options.platform.clock.boot();
    }
    state.failure = Some(Arc::new(failure));
    drop(state);
    shared.changed.notify_waiters();
}

/// Reads frames until the connection ends; returns why it ended.
async fn read_frames(
    shared: &Arc<Shared>,
    framed: &Arc<FramedStream>,
    reader: &mut FrameReader,
) -> String {
    loop {
        let frame = match reader.next(FrameLimits::AUTHENTICATED).await {
            Ok(frame) => frame,
            Err(error) => {
                if let FramedStreamError::Frame(error) = &error {
                    let (server, address) = (
                        shared.options.peer_name.as_str(),
                        shared.options.address.as_str(),
                    );
                    tracing::warn!(server, address, %error, "received an invalid frame; reconnecting");
                }
                return error.to_string();
            }
        };
        let Head { kind, version, .. } = frame.head;
        if !framed.accepts(kind, version) {
            return format!(
                "received a message of kind {} in version {version}, which the handshake did not negotiate",
                kind.0
            );
        }
        match (frame.head.kind, frame.head.is_reply()) {
            (MessageKind::LINK, _) => {} // a ping
            (_, true) => handle_reply(shared, frame),
            (_, false) => handle_callback(shared, framed, frame),
        }
    }
}

fn handle_reply(shared: &Shared, frame: Frame) {
    tracing::trace!(target: "walk", file = file!(), "handle_reply");
    if frame.head.flags.contains(Flags::BUSY) {
        let mut hint = [0; 4];
        let have = frame.body.len().min(4);
        hint[..have].copy_from_slice(&frame.body[..have]);
        let by = Duration::from_millis(u64::from(u32::from_le_bytes(hint)));
        let now = shared.options.platform.clock.boot();
        shared
            .pending
            .postpone(frame.head.id, now, by.min(RETRY_MAX));
        return;
    }
    let outcome = RequestOutcome::Replied {
        body: frame.body,
        payload: frame.payload,
    };
    shared.pending.complete(frame.head.id, outcome);
}

/// Runs the handler of a callback and sends its reply.
fn handle_callback(shared: &Arc<Shared>, framed: &Arc<FramedStream>, frame: Frame) {
    let (kind, id) = (frame.head.kind, frame.head.id);
    let Some(handler) = shared.options.handlers.get(kind) else {
        tracing::warn!(
            ?kind,
            server = shared.options.peer_name,
            "no handler for a callback of this kind; ignored"
        );
        return;
    };
    let (handler, framed) = (handler.clone(), framed.clone());
    let role = shared
        .state
        .lock()
        .server
        .as_ref()
        .map(|server| server.role);
    let Some(role) = role else {
        return; // no frame is read before the handshake is over
    };
    let source = RequestSource { role, peer: None };
    let reply_future = handler.handle(source, frame.body, frame.payload);
    shared.options.platform.tasks.spawn("callback", async move {
        let reply = reply_future.await;
        let packed = pack(kind, Flags::REPLY, id, reply);
        let packed = packed.or_else(|error| {
            let error = FsError::StoreFailed(format!("the reply cannot be sent: {error}"));
            pack(kind, Flags::REPLY, id, handler.error_reply(error))
        });
        if let Ok(packed) = packed {
            framed.send(packed);
        }
    });
}

/// Fails the requests whose deadline has passed.
pub(super) fn fail_expired(shared: &Shared, ids: Vec<u64>) {
    let error: FsError = shared.timeout_error();
    for id in ids {
        shared
            .pending
            .complete(id, RequestOutcome::Failed(error.clone()));
    }
}
