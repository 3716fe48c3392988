//! The server side of one connection, from the first byte to its end.

use super::Inner;
use crate::connected_peer::ConnectedPeer;
use crate::frame::{Flags, Frame, FrameError, FrameLimits, Head, pack};
use crate::framed_stream::{FrameReader, FramedStream, FramedStreamError};
use crate::handler::{ErasedHandler, RequestSource, WireReplyFuture};
use crate::handshake::{
    AcceptedPeer, RejectReason, Role, send_rejection, send_transport_rejection, send_welcome,
};
use crate::limits::{
    BUSY_HINT, DRAIN_TIMEOUT, FIRST_FRAME_TIMEOUT, HANDSHAKE_TIMEOUT, QUEUED_REPLIES_MAX,
    REJECTION_SEND_TIMEOUT, TIMER_TICK,
};
use crate::load::{AnnouncedBytes, RequestGuard};
use crate::pending_requests::RequestOutcome;
use crate::tls::{MaybeTlsStream, TlsConfig, TlsFault};
use crate::unauthenticated::UnauthenticatedGuard;
use bytes::Bytes;
use gupfs_platform::Stream;
use gupfs_proto::FsError;
use gupfs_proto::wire::{EncodedMessage, MessageKind};
use std::sync::Arc;
use std::task::{Context, Waker};

pub(super) async fn serve_connection(
    inner: Arc<Inner>,
    stream: Stream,
    guard: UnauthenticatedGuard,
) {
    let clock = inner.platform.clock.clone();
    let pipe = match inner.tls.as_ref().map(TlsConfig::accept) {
        None => MaybeTlsStream::Plain(stream),
        Some(Ok(connection)) => MaybeTlsStream::tls(stream, connection),
        Some(Err(error)) => return inner.log_rejected(stream.peer_address(), &error),
    };
    let framed = Arc::new(FramedStream::new(pipe, clock.clone()));
    let mut reader = framed.reader();
    let from = framed.stream().peer().to_string();
    let handshake = inner
        .acceptor
        .accept_handshake(&framed, &mut reader, &inner.platform.random);
    let accepted = tokio::select! {
        biased;
        accepted = handshake => accepted,
        () = framed.flush() => return,
        why = handshake_timeout(&inner, &framed) => {
            inner.log_rejected(&from, &why);
            framed.close();
            return;
        }
    };
    let accepted = match accepted {
        Ok(accepted) => accepted,
        Err(reason) => {
            if guard.is_evicted() {
                inner.log_rejected(
                    &from,
                    &"evicted before the end of its handshake for another connection",
                );
                return;
            }
            // A peer that connects and disconnects (a port scan, a health check) is not an error.
            if !matches!(reason, RejectReason::Stream(FramedStreamError::Ended)) {
                inner.log_rejected(&from, &reason);
            }
            if let Some(why) = transport_mismatch(&reason) {
                send_transport_rejection(&framed, why);
            }
            // The peer should receive the rejection before the connection closes.
            flush_all(&inner, &framed).await;
            framed.close();
            return;
        }
    };
    let origin = guard.origin().clone();
    guard.mark_authenticated();
    let now = clock.boot();
    let inserted = inner.connections.insert(&accepted, &origin, |loads| {
        Arc::new(ConnectedPeer::new(
            accepted.clone(),
            now,
            framed.clone(),
            loads,
        ))
    });
    match inserted {
        Ok(peer) => {
            if wait_former_requests(&inner, &peer).await {
                run_connection(&inner, &peer, &accepted, &mut reader).await;
            } else {
                let why = "requests of the previous connection of this process are still running";
                reject(&inner, &framed, why).await;
            }
            peer.close();
            // It stays in the table until its requests end, so that the next connection of this process waits for them.
            peer.loads.connection.wait_requests_below(1).await;
            inner.connections.remove(&peer);
        }
        Err(why) => {
            inner.log_rejected(&from, &why);
            reject(&inner, &framed, &why.to_string()).await;
            framed.close();
        }
    }
}

/// Returns when an unauthenticated connection has used up its time; returns why it is rejected.
async fn handshake_timeout(inner: &Inner, framed: &FramedStream) -> &'static str {
    inner.platform.clock.sleep(FIRST_FRAME_TIMEOUT).await;
    if !framed.has_received() {
        return "the peer sent nothing";
    }
    inner
        .platform
        .clock
        .sleep(HANDSHAKE_TIMEOUT - FIRST_FRAME_TIMEOUT)
        .await;
    "the handshake did not finish in time"
}

/// The rejection of a peer that uses TLS while this server does not, or the reverse.
fn transport_mismatch(reason: &RejectReason) -> Option<&'static str> {
    match reason {
        RejectReason::Stream(FramedStreamError::Tls(TlsFault::NotTls)) => {
            Some("this server requires TLS: name the directory of the site's certificates (--tls)")
        }
        RejectReason::Stream(FramedStreamError::Frame(FrameError::Tls)) => {
            Some("this server does not use TLS")
        }
        _ => None,
    }
}

/// Sends a rejection, and waits until it is sent: the peer should receive it before the connection closes.
async fn reject(inner: &Inner, framed: &FramedStream, why: &str) {
    send_rejection(framed, why, false);
    flush_all(inner, framed).await;
}

/// Returns when all queued bytes were sent, or cannot be sent.
async fn flush_all(inner: &Inner, framed: &FramedStream) {
    tokio::select! {
        biased;
        () = framed.wait_for_send_space(0) => {}
        () = framed.flush() => {}
        () = inner.platform.clock.sleep(REJECTION_SEND_TIMEOUT) => {}
    }
}

/// For a fenced connection: waits until no request of the process's previous connections can take effect any more. False if that
/// takes too long.
async fn wait_former_requests(inner: &Inner, peer: &ConnectedPeer) -> bool {
    if !peer.identity().fenced {
        return true;
    }
    tokio::select! {
        biased;
        () = peer.loads.connection.wait_requests_below(1) => !peer.is_closed(),
        () = inner.platform.clock.sleep(DRAIN_TIMEOUT) => false,
    }
}

/// Why a connection ended.
enum DisconnectReason {
    Closed(String),
    /// The peer sent an invalid frame, so the server does not know where the next one begins.
    ProtocolError(String),
}

/// Runs a connection from the welcome message to its end.
async fn run_connection(
    inner: &Arc<Inner>,
    peer: &Arc<ConnectedPeer>,
    accepted: &AcceptedPeer,
    reader: &mut FrameReader,
) {
    let (identity, from) = (peer.identity(), peer.address());
    let is_visitor = identity.role == Role::Visitor;
    if !is_visitor {
        tracing::info!(
            role = identity.role.name(),
            name = identity.name,
            from,
            "connected"
        );
    }
    send_welcome(&peer.framed, accepted);
    inner.observer.connected(peer);
    let why = tokio::select! {
        biased;
        why = read_frames(inner, peer, reader) => why,
        () = peer.framed.flush() => DisconnectReason::Closed("the connection ended".to_string()),
        why = wait_timeout(inner, &peer.framed) => DisconnectReason::Closed(why.to_string()),
    };
    peer.close();
    inner.observer.disconnected(peer);
    let why = match why {
        DisconnectReason::Closed(why) => why,
        DisconnectReason::ProtocolError(why) => {
            inner.log_protocol_error(from, &why);
            why
        }
    };
    if !is_visitor {
        tracing::info!(
            role = identity.role.name(),
            name = identity.name,
            from,
            why,
            "disconnected"
        );
    }
}

/// Returns when the peer has timed out; returns the reason.
async fn wait_timeout(inner: &Inner, framed: &FramedStream) -> &'static str {
    loop {
        inner.platform.clock.sleep(TIMER_TICK * 4).await;
        if let Some(why) = framed.timeout_reason() {
            return why;
        }
    }
}

/// Reads frames until the connection ends; returns why it ended. It never waits for anything but the next frame: pings and
/// replies must be processed whatever requests are running.
async fn read_frames(
    inner: &Arc<Inner>,
    peer: &Arc<ConnectedPeer>,
    reader: &mut FrameReader,
) -> DisconnectReason {
    loop {
        if let Err(end) = read_frame(inner, peer, reader).await {
            return end;
        }
    }
}

/// Reads and processes one frame, or skips it if its bytes exceed the limits.
async fn read_frame(
    inner: &Arc<Inner>,
    peer: &Arc<ConnectedPeer>,
    reader: &mut FrameReader,
) -> Result<(), DisconnectReason> {
    let head = reader.read_head(FrameLimits::AUTHENTICATED).await?;
    let is_request = head.kind != MessageKind::LINK && !head.is_reply();
    let handler = match is_request {
        true => Some(handler_for(inner, peer, &head)?),
        false => None,
    };
    let Some(announced) = peer
        .loads
        .reserve_bytes(head.body as usize + head.payload as usize)
    else {
        if !is_request {
            return Err(DisconnectReason::Closed(
                "its replies to callbacks exceed the limit of reserved bytes".into(),
            ));
        }
        reader.skip(head).await?;
        reply_busy(peer, &head);
        return Ok(());
    };
    let frame = reader.read_rest(head).await?;
    if peer.framed.queued_bytes() > 2 * QUEUED_REPLIES_MAX {
        return Err(DisconnectReason::Closed(
            "the peer does not read its replies".into(),
        ));
    }
    match handler {
        Some(handler) => start_request(inner, peer, frame, handler, announced)?,
        // The server replies to a ping with a ping, so that both sides receive something.
        None if head.kind == MessageKind::LINK => peer.framed.send_ping(),
        None => {
            let outcome = RequestOutcome::Replied {
                body: frame.body,
                payload: frame.payload,
            };
            peer.callbacks.complete(head.id, outcome);
        }
    }
    Ok(())
}

impl From<FramedStreamError> for DisconnectReason {
    fn from(error: FramedStreamError) -> DisconnectReason {
        match error {
            FramedStreamError::Frame(_) => DisconnectReason::ProtocolError(error.to_string()),
            _ => DisconnectReason::Closed(error.to_string()),
        }
    }
}

/// The handler of requests of this kind, if the handshake negotiated this version.
fn handler_for(
    inner: &Inner,
    peer: &ConnectedPeer,
    head: &Head,
) -> Result<Arc<dyn ErasedHandler>, DisconnectReason> {
    let (kind, version) = (head.kind, head.version);
    if !peer.framed.accepts(kind, version) {
        return Err(DisconnectReason::ProtocolError(format!(
            "received a message of kind {} in version {version}, which the handshake did not negotiate",
            kind.0
        )));
    }
    inner.handlers.get(kind).cloned().ok_or_else(|| {
        DisconnectReason::ProtocolError(format!(
            "received a message of kind {}, for which this server has no handler",
            kind.0
        ))
    })
}

/// Polls the handler once; a request that has to wait continues in a task of its own.
fn start_request(
    inner: &Arc<Inner>,
    peer: &Arc<ConnectedPeer>,
    frame: Frame,
    handler: Arc<dyn ErasedHandler>,
    announced: AnnouncedBytes,
) -> Result<(), DisconnectReason> {
    let can_queue_reply = peer.framed.queued_bytes() <= QUEUED_REPLIES_MAX;
    let running = peer
        .loads
        .begin_request(announced)
        .filter(|_| can_queue_reply);
    let Some(running) = running else {
        reply_busy(peer, &frame.head);
        return Ok(());
    };
    // The request is counted before this check: a task that closes the connection and then finds no running request knows that
    // none will start.
    if peer.is_closed() {
        return Err(DisconnectReason::Closed("the connection ended".into()));
    }
    let (kind, id) = (frame.head.kind, frame.head.id);
    let source = RequestSource {
        role: peer.identity().role,
        peer: Some(peer.clone()),
    };
    let reply_future = handler.handle(source, frame.body, frame.payload);
    let framed = peer.framed.clone();
    let mut completion = Box::pin(complete_request(
        reply_future,
        handler,
        framed,
        kind,
        id,
        running,
    ));
    let mut context = Context::from_waker(Waker::noop());
    if completion.as_mut().poll(&mut context).is_pending() {
        inner.platform.tasks.spawn("request", completion);
    }
    Ok(())
}

async fn complete_request(
    reply_future: WireReplyFuture,
    handler: Arc<dyn ErasedHandler>,
    framed: Arc<FramedStream>,
    kind: MessageKind,
    id: u64,
    running: RequestGuard,
) {
    let reply = reply_future.await;
    if let Err(error) = send(&framed, kind, Flags::REPLY, id, reply) {
        // The reply to a resent request would be too long again, so the peer gets an error.
        tracing::error!(%error, ?kind, "the reply cannot be sent; replying with an error");
        let error = handler.error_reply(FsError::StoreFailed(format!(
            "the reply cannot be sent: {error}"
        )));
        let _ = send(&framed, kind, Flags::REPLY, id, error);
    }
    drop(running);
}

fn send(
    framed: &FramedStream,
    kind: MessageKind,
    flags: Flags,
    id: u64,
    written: EncodedMessage,
) -> Result<(), FrameError> {
    pack(kind, flags, id, written).map(|packed| framed.send(packed))
}

/// Replies that the server does not accept this request now, with the delay before the client resends it.
fn reply_busy(peer: &ConnectedPeer, head: &Head) {
    peer.loads.count_busy();
    let hint = EncodedMessage {
        min_version: head.version,
        body: (BUSY_HINT.as_millis() as u32).to_le_bytes().to_vec(),
        payload: Bytes::new(),
    };
    let flags = Flags::REPLY | Flags::BUSY;
    let _ = send(&peer.framed, head.kind, flags, head.id, hint);
}
