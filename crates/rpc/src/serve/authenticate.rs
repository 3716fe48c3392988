//! The handshake of an accepted connection: its time limits, and the rejection of a peer that fails it.

use super::Inner;
use crate::frame::FrameError;
use crate::framed_stream::{FrameReader, FramedStream, FramedStreamError};
use crate::handshake::{AcceptedPeer, RejectReason, send_rejection, send_transport_rejection};
use crate::limits::{FIRST_FRAME_TIMEOUT, HANDSHAKE_TIMEOUT, REJECTION_SEND_TIMEOUT};
use crate::tls::TlsFault;
use crate::unauthenticated::UnauthenticatedGuard;

/// Performs the handshake. None if the peer is not accepted: the reason is logged, the peer has it, and the connection is closed.
pub(super) async fn authenticate(
    inner: &Inner,
    framed: &FramedStream,
    reader: &mut FrameReader,
    guard: &UnauthenticatedGuard,
) -> Option<AcceptedPeer> {
    let from = framed.stream().peer_address();
    let handshake = inner
        .acceptor
        .accept_handshake(framed, reader, &inner.platform.random);
    let accepted = tokio::select! {
        biased;
        accepted = handshake => accepted,
        () = framed.flush() => return None,
        why = handshake_timeout(inner, framed) => {
            inner.log_rejected(from, &why);
            framed.close();
            return None;
        }
    };
    let reason = match accepted {
        Ok(accepted) => return Some(accepted),
        Err(reason) => reason,
    };
    if guard.is_evicted() {
        let why = "evicted before the end of its handshake for another connection";
        inner.log_rejected(from, &why);
        return None;
    }
    // A peer that connects and disconnects (a port scan, a health check) is not an error.
    if !matches!(reason, RejectReason::Stream(FramedStreamError::Ended)) {
        inner.log_rejected(from, &reason);
    }
    if let Some(why) = transport_mismatch(&reason) {
        send_transport_rejection(framed, why);
    }
    // The peer should receive the rejection before the connection closes.
    flush_all(inner, framed).await;
    framed.close();
    None
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
pub(super) async fn reject(inner: &Inner, framed: &FramedStream, why: &str) {
    send_rejection(framed, why, false, &inner.admission.addresses());
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
