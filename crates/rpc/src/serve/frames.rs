//! Reads the frames of a connection whose handshake is over, and runs its requests.

use super::Inner;
use crate::connected_peer::ConnectedPeer;
use crate::frame::{Flags, Frame, FrameError, FrameLimits, Head, pack};
use crate::framed_stream::{FrameReader, FramedStream, FramedStreamError};
use crate::handler::{ErasedHandler, RequestSource, WireReplyFuture};
use crate::handshake::pack_addresses;
use crate::limits::{BUSY_HINT, QUEUED_REPLIES_MAX};
use crate::load::{AnnouncedBytes, RequestGuard};
use crate::pending_requests::RequestOutcome;
use gupfs_proto::FsError;
use gupfs_proto::wire::{EncodedMessage, MessageKind};
use std::sync::Arc;
use std::task::{Context, Waker};

/// Why a connection ended.
pub(super) enum DisconnectReason {
    Closed(String),
    /// The peer sent an invalid frame, so the server does not know where the next one begins.
    ProtocolError(String),
}

impl From<FramedStreamError> for DisconnectReason {
    fn from(error: FramedStreamError) -> DisconnectReason {
        match error {
            FramedStreamError::Frame(_) => DisconnectReason::ProtocolError(error.to_string()),
            _ => DisconnectReason::Closed(error.to_string()),
        }
    }
}

/// Reads frames until the connection ends; returns why it ended. It never waits for anything but the next frame: pings and
/// replies must be processed whatever requests are running.
pub(super) async fn read_frames(
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
        // The server replies to a ping with a ping, so that both sides receive something. A peer that stays connected for long learns of new
        // copies by it.
        None if head.kind == MessageKind::LINK => {
            let addresses = pack_addresses(&inner.admission.addresses());
            peer.framed.send_ping_with(addresses);
        }
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
    tracing::trace!(target: "walk", file = file!(), "start_request");
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
    tracing::trace!(target: "walk", file = file!(), "complete_request");
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
    tracing::trace!(target: "walk", file = file!(), "send");
    pack(kind, flags, id, written).map(|packed| framed.send(packed))
}

/// Replies that the server does not accept this request now, with the delay before the client resends it.
fn reply_busy(peer: &ConnectedPeer, head: &Head) {
    peer.loads.count_busy();
    let hint = EncodedMessage {
        min_version: head.version,
        body: (BUSY_HINT.as_millis() as u32).to_le_bytes().to_vec(),
        ..EncodedMessage::default()
    };
    let flags = Flags::REPLY | Flags::BUSY;
    let _ = send(&peer.framed, head.kind, flags, head.id, hint);
}
