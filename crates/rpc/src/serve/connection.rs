//! The server side of one connection, from the first byte to its end.

use super::Inner;
use super::admission::{Admitted, wait_admitted};
use super::authenticate::{authenticate, reject};
use super::frames::{DisconnectReason, read_frames};
use crate::connected_peer::ConnectedPeer;
use crate::framed_stream::{FrameReader, FramedStream};
use crate::handshake::{AcceptedPeer, Role, send_welcome};
use crate::limits::{DRAIN_TIMEOUT, TIMER_TICK};
use crate::tls::{MaybeTlsStream, TlsConfig};
use crate::unauthenticated::UnauthenticatedGuard;
use gupfs_platform::Stream;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

pub(super) async fn serve_connection(
    inner: Arc<Inner>,
    stream: Stream,
    guard: UnauthenticatedGuard,
) {
    let clock = inner.platform.clock.clone();
    let stream = match inner.tls.as_ref().map(TlsConfig::accept) {
        None => stream.into(),
        Some(Ok(connection)) => MaybeTlsStream::tls(stream, connection),
        Some(Err(error)) => return inner.log_rejected(stream.peer_address(), &error),
    };
    let framed = Arc::new(FramedStream::new(stream, clock.clone()));
    let mut reader = framed.reader();
    let Some(accepted) = authenticate(&inner, &framed, &mut reader, &guard).await else {
        return;
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
            if inner.is_stopped.load(SeqCst) {
                reject(&inner, &framed, "the server stops").await;
            } else if wait_former_requests(&inner, &peer).await {
                run_if_admitted(&inner, &peer, &accepted, &mut reader).await;
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
            inner.log_rejected(framed.stream().peer_address(), &why);
            reject(&inner, &framed, &why.to_string()).await;
            framed.close();
        }
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

/// Runs a connection, if the server admits its peer.
async fn run_if_admitted(
    inner: &Arc<Inner>,
    peer: &Arc<ConnectedPeer>,
    accepted: &AcceptedPeer,
    reader: &mut FrameReader,
) {
    match wait_admitted(inner, peer, reader).await {
        Some(Admitted::Welcome) => run_connection(inner, peer, accepted, reader).await,
        Some(Admitted::Rejected { why }) => {
            let (name, from) = (&peer.identity().name, peer.address());
            // A standby rejects many connections; that is no fault of theirs.
            tracing::debug!(name, from, why, "not admitted");
            reject(inner, &peer.framed, &why).await;
        }
        None => {}
    }
}

/// Runs a connection from the welcome message to its end. Clients and object servers get no welcome after the deadline for sending.
async fn run_connection(
    inner: &Arc<Inner>,
    peer: &Arc<ConnectedPeer>,
    accepted: &AcceptedPeer,
    reader: &mut FrameReader,
) {
    let (identity, from) = (peer.identity(), peer.address());
    // Other metadata servers, and commands that ask for the state of this process, get answers in any case.
    let is_limited = !matches!(identity.role, Role::Mds | Role::Visitor);
    if is_limited {
        peer.framed.set_send_deadline(&inner.send_deadline);
        if !inner.send_deadline.may_send() {
            tracing::debug!(
                name = identity.name,
                from,
                "closed: this process may not send"
            );
            return;
        }
    }
    let is_visitor = identity.role == Role::Visitor;
    if !is_visitor {
        tracing::info!(
            role = identity.role.name(),
            name = identity.name,
            from,
            "connected"
        );
    }
    send_welcome(&peer.framed, accepted, &inner.admission.addresses());
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
        DisconnectReason::Closed(_) if is_limited && !inner.send_deadline.may_send() => {
            "this process may not send any more".to_string()
        }
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
