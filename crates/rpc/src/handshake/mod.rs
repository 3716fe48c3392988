//! # handshake: identity, role and key of the other side
//!
//! Owns   the four messages that open a connection, the proofs of the key, the negotiation of message versions, the MAC keys of
//!        the frames that follow.
//! Never  accepts any other frame before the handshake is over.
//! Enter  at `connect_handshake` (the side that connects) and `Acceptor::accept_handshake` (the server).
//!
//! ```text
//! client                                    server
//! Hello { process_id, number, nonce, … } →
//!                                        ←  Challenge { cluster, nonce, versions, proof over the transcript }
//! ClientProof { proof over the same }    →
//!                                        ←  Welcome, or Rejected { why }; the addresses of the server's copies
//! ```
//!
//! Both proofs are HMACs over the transcript, which includes both nonces, the role and the offered versions: an attacker cannot
//! replay one side's messages to the other, and cannot downgrade the versions. The HMAC key is the cluster key, or the client key
//! of a host that only mounts, which the server derives. A client sends no proof to a server that does not prove the key. The
//! frames that follow are not encrypted unless the connection uses TLS; without TLS each frame has a MAC (`frame_mac`).

mod accept;
mod connect;
mod messages;
mod verdict;

pub use accept::{AcceptedPeer, Acceptor, RejectReason, send_welcome};
#[cfg(any(test, fuzzing))]
pub(crate) use connect::connect_handshake_with_versions;
pub use connect::{HandshakeError, HandshakeOptions, connect_handshake};
#[cfg(any(test, fuzzing))]
pub(crate) use messages::offered_versions;
#[cfg(test)]
pub(crate) use messages::supported_versions;
use messages::{LINK_WITH_CHECKSUMMED, LINK2_LABELS, labels_of, link_version};
pub use messages::{LocalIdentity, PeerIdentity, Role};
pub use verdict::{addresses_in, pack_addresses, send_rejection, send_transport_rejection};

use crate::frame::{Flags, FrameLimits, pack};
use crate::frame_mac::{FrameMacKey, FrameMacKeys};
use crate::framed_stream::{FrameReader, FramedStream, FramedStreamError, LINK_VERSION};
use crate::key::ClusterKey;
use bytes::Bytes;
use gupfs_proto::wire::{EncodedMessage, MessageKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The input of the proofs: the messages before them, and with TLS the channel binding (RFC 9266), so that an attacker between
/// two connections cannot forward the proofs.
struct Transcript<'a> {
    hello: &'a [u8],
    terms: &'a [u8],
    channel_binding: Option<[u8; 32]>,
}

impl Transcript<'_> {
    fn parts<'a>(&'a self, domain: &'a [u8]) -> Vec<&'a [u8]> {
        let mut parts = vec![domain, self.hello, self.terms];
        parts.extend(
            self.channel_binding
                .as_ref()
                .map(|channel_binding| &channel_binding[..]),
        );
        parts
    }

    /// The MAC keys of the frames that this side sends and receives. None with TLS, which authenticates the frames itself, and
    /// with a peer of LINK version 1.
    fn mac_keys(
        &self,
        key: &ClusterKey,
        versions: &[(u16, u8)],
        is_server: bool,
    ) -> Option<FrameMacKeys> {
        let labels = labels_of(versions).unwrap_or(&LINK2_LABELS);
        if self.channel_binding.is_some() || labels.to_server.is_empty() {
            return None;
        }
        let mac_key = |domain| FrameMacKey::new(&key.hmac(&self.parts(domain)));
        let (up, down) = (mac_key(labels.to_server), mac_key(labels.to_client));
        let (send, receive) = match is_server {
            true => (down, up),
            false => (up, down),
        };
        Some(FrameMacKeys {
            send,
            receive,
            omits_checksummed: link_version(versions) >= Some(LINK_WITH_CHECKSUMMED),
        })
    }
}

/// Sends one handshake message; returns its encoded body.
fn send_message<T: Serialize>(framed: &FramedStream, message_body: &T) -> Vec<u8> {
    let body = postcard::to_stdvec(message_body).expect("a handshake message is plain data");
    let message = EncodedMessage {
        min_version: LINK_VERSION,
        body: body.clone(),
        ..EncodedMessage::default()
    };
    // Handshake messages are short: they always fit.
    if let Ok(packed) = pack(MessageKind::LINK, Flags::empty(), 0, message) {
        framed.send(packed);
    }
    body
}

/// Receives one handshake message; returns it with its encoded body.
async fn receive_message<T: DeserializeOwned>(
    reader: &mut FrameReader,
) -> Result<(T, Bytes), FramedStreamError> {
    let body = receive_body(reader).await?;
    let message_body = postcard::from_bytes(&body).map_err(|_| unreadable())?;
    Ok((message_body, body))
}

async fn receive_body(reader: &mut FrameReader) -> Result<Bytes, FramedStreamError> {
    let frame = reader.next(FrameLimits::UNAUTHENTICATED).await?;
    if frame.head.kind != MessageKind::LINK
        || frame.head.version != LINK_VERSION
        || !frame.payload.is_empty()
    {
        return Err(unreadable());
    }
    Ok(frame.body)
}

fn unreadable() -> FramedStreamError {
    FramedStreamError::Handshake("the frame is not a valid handshake message")
}
