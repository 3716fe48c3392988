//! Whether an authenticated peer may use this server now: a standby holds the connections of clients until it is the owner.

use super::Inner;
use crate::connected_peer::ConnectedPeer;
use crate::frame::FrameLimits;
use crate::framed_stream::FrameReader;
use crate::handshake::PeerIdentity;
use crate::limits::ADMISSION_TIMEOUT;
use std::future::Future;
use std::pin::Pin;

/// What a server answers to an authenticated peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admitted {
    /// The peer may send requests.
    Welcome,
    /// Not now; the peer tries again, here and at the other addresses that it knows. `why` is for its log.
    Rejected { why: String },
}

/// The decision on one peer. The server drops it when the peer disconnects.
pub type AdmissionFuture = Pin<Box<dyn Future<Output = Admitted> + Send>>;

/// Decides which authenticated peers may use a server.
pub trait Admission: Send + Sync + 'static {
    /// Decides on a peer. A standby may let it wait, for less than `ADMISSION_TIMEOUT`: then the server rejects it. Meanwhile the
    /// connection counts as an authenticated one.
    fn admit(&self, peer: &PeerIdentity) -> AdmissionFuture;

    /// The addresses ("host:port") of all copies of this server, which it names to each authenticated peer; none if there is only one. A
    /// handshake message holds at most `SERVER_ADDRESSES_MAX` of at most `SERVER_ADDRESS_MAX` bytes, and 4 KiB in all.
    fn addresses(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Admits every authenticated peer at once.
pub struct AdmitAll;

impl Admission for AdmitAll {
    fn admit(&self, _: &PeerIdentity) -> AdmissionFuture {
        Box::pin(std::future::ready(Admitted::Welcome))
    }
}

/// Waits for the decision on a peer. None if the connection ended before: the peer disconnected, or a newer connection of the same process
/// replaced it.
pub(super) async fn wait_admitted(
    inner: &Inner,
    peer: &ConnectedPeer,
    reader: &mut FrameReader,
) -> Option<Admitted> {
    tokio::select! {
        biased;
        admitted = inner.admission.admit(peer.identity()) => Some(admitted),
        received = reader.read_head(FrameLimits::UNAUTHENTICATED) => {
            // A peer sends nothing before it has the verdict.
            if received.is_ok() {
                let why = "the peer sent a frame before the server's verdict";
                inner.log_protocol_error(peer.address(), why);
            }
            None
        }
        () = inner.platform.clock.sleep(ADMISSION_TIMEOUT) => {
            let why = "the server does not serve yet".to_string();
            Some(Admitted::Rejected { why })
        }
    }
}
