//! The streams of a client connection, one after the other.

use super::Shared;
use super::establish::EstablishedConnection;
use super::race::ConnectRace;
use crate::frame::{Flags, Frame, FrameLimits, Head, pack};
use crate::framed_stream::{FrameReader, FramedStream, FramedStreamError};
use crate::handler::RequestSource;
use crate::handshake::{PeerIdentity, addresses_in};
use crate::limits::{PING_INTERVAL, RETRY_MAX};
use crate::pending_requests::RequestOutcome;
use gupfs_proto::FsError;
use gupfs_proto::wire::MessageKind;
use std::sync::Arc;
use std::time::Duration;

pub(super) async fn keep_connected(shared: Arc<Shared>) {
    let clock = shared.options.platform.clock.clone();
    let mut race = ConnectRace::new(&shared);
    loop {
        let connection = race.win().await;
        let (address, started) = (connection.address.clone(), clock.boot());
        let reason = run_connection(&shared, connection).await;
        let has_lasted = clock.boot().since(started) >= PING_INTERVAL;
        race.record_lost(&address, reason, has_lasted);
    }
}

/// Uses an established connection until it ends; returns why it ended.
async fn run_connection(shared: &Arc<Shared>, connection: EstablishedConnection) -> String {
    let EstablishedConnection {
        address,
        framed,
        mut reader,
        number,
        server,
    } = connection;
    set_connected(shared, &address, &framed.0, number, server);
    let reason = tokio::select! {
        biased;
        reason = read_frames(shared, &address, &framed.0, &mut reader) => reason,
        () = framed.0.flush() => "the connection ended".to_string(),
    };
    shared.state.lock().framed = None;
    reason
}

fn set_connected(
    shared: &Arc<Shared>,
    address: &str,
    framed: &Arc<FramedStream>,
    number: u64,
    server: PeerIdentity,
) {
    tracing::debug!(
        server = shared.options.peer_name,
        address,
        number,
        "connected"
    );
    {
        let mut state = shared.state.lock();
        state.framed = Some((framed.clone(), number));
        state.address = Some(address.to_string());
        state.server = Some(server);
        state.failure = None;
        state.failed_addresses.clear();
        state.since = shared.options.platform.clock.boot();
    }
    shared.send_unsent(framed, number);
    shared.changed.notify_waiters();
}

/// Reads frames until the connection ends; returns why it ended.
async fn read_frames(
    shared: &Arc<Shared>,
    address: &str,
    framed: &Arc<FramedStream>,
    reader: &mut FrameReader,
) -> String {
    loop {
        let frame = match reader.next(FrameLimits::AUTHENTICATED).await {
            Ok(frame) => frame,
            Err(error) => {
                if let FramedStreamError::Frame(error) = &error {
                    let server = shared.options.peer_name.as_str();
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
            (MessageKind::LINK, _) => {
                let addresses = addresses_in(&frame.body);
                // As after a handshake: all requests of a fenced connection go to one process.
                if !addresses.is_empty() && !shared.options.fence {
                    shared.options.addresses.learn(addresses);
                }
            }
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
