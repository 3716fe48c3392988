//! The handshake on the server.

use super::messages::{
    Challenge, ClientProof, Hello, LINK_WITH_ROLES, LINK2_LABELS, OfferedKey, Rejected, Role,
    ServerTerms, Verdict, labels_of, link_version, negotiate, supported_versions,
};
use super::verdict::{send_rejection, send_verdict};
use super::{
    LocalIdentity, PeerIdentity, Transcript, receive_body, receive_message, send_message,
    unreadable,
};
use crate::client_key::{
    AuthKey, CLIENT_NAME_MAX, ClientKey, ClientKeyId, ClientKeyList, ProvenKey,
};
use crate::frame_mac::FrameMacKeys;
use crate::framed_stream::{FrameReader, FramedStream, FramedStreamError, NegotiatedProtocol};
use crate::key::ClusterKey;
use gupfs_platform::Random;
use gupfs_proto::ClusterId;
use gupfs_proto::wire::MessageKind;
use std::sync::Arc;

/// Largest name of a peer: it appears in lists and logs.
const NAME_MAX: usize = 256;

/// Performs handshakes and decides which peers the server accepts.
pub struct Acceptor {
    pub identity: LocalIdentity,
    pub cluster: ClusterId,
    /// None: the server accepts every peer that can reach it.
    pub key: Option<ClusterKey>,
    /// The client keys that the server accepts.
    pub client_keys: Arc<dyn ClientKeyList>,
}

/// Why the server did not accept a connection.
#[derive(Debug, thiserror::Error)]
pub enum RejectReason {
    #[error(transparent)]
    Stream(#[from] FramedStreamError),
    /// The server's proof did not convince the peer, or the peer does not have the key.
    #[error("the peer disconnected when it had to prove its key")]
    Disconnected,
    #[error("the peer has no key")]
    NoKey,
    #[error("the peer's key is neither the cluster key nor a client key of this cluster")]
    WrongKey,
    #[error("client key {0}: {1}")]
    ClientKeyRefused(ClientKeyId, String),
    #[error(
        "the peer claims the role of a server ({role}) but offers {key}, which does not prove that role"
    )]
    Role { role: &'static str, key: String },
    #[error("the peer expects cluster {0}")]
    OtherCluster(ClusterId),
    #[error("the peer has no protocol version in common with this server")]
    NoCommonVersion,
}

/// A peer whose proof is valid and to which the final verdict has not been sent yet.
#[derive(Clone)]
pub struct AcceptedPeer {
    pub identity: PeerIdentity,
    /// The number of this connection among those of the same process.
    pub number: u64,
    mac_keys: Option<FrameMacKeys>,
}

/// Why the handshake fails: the reason for this server's log, and the text for the peer.
struct Rejection(RejectReason, String);

impl Acceptor {
    /// Performs the handshake up to the verdict, which the caller sends: `send_welcome` or `send_rejection`.
    ///
    /// # Errors
    /// The reason why the peer is not accepted: the stream ended, a message was malformed, no version is common, or the peer did
    /// not prove a key that this server accepts for its role. The peer has been sent the rejection, unless it disconnected or its
    /// message was malformed.
    pub async fn accept_handshake(
        &self,
        framed: &FramedStream,
        reader: &mut FrameReader,
        random: &Random,
    ) -> Result<AcceptedPeer, RejectReason> {
        self.accept_handshake_with_versions(framed, reader, random, &supported_versions())
            .await
    }

    /// Performs the handshake of a server with these versions: (kind, oldest, newest).
    ///
    /// # Errors
    /// As of `accept_handshake`.
    pub(crate) async fn accept_handshake_with_versions(
        &self,
        framed: &FramedStream,
        reader: &mut FrameReader,
        random: &Random,
        supported: &[(u16, u8, u8)],
    ) -> Result<AcceptedPeer, RejectReason> {
        let hello_bytes = receive_body(reader).await?;
        let (hello, offered) = read_hello(&hello_bytes)?;
        let versions = negotiate(&hello.versions, supported);
        let selected = (self.check_hello(&hello, &versions))
            .and_then(|()| self.select_key(&hello, &offered, &versions));
        let (key, kind) = match selected {
            Ok(selected) => selected,
            Err(Rejection(reason, why)) => {
                let rejected = Rejected {
                    why,
                    is_permanent: true,
                };
                send_message(framed, &Challenge::Rejected(rejected));
                return Err(reason);
            }
        };
        let terms = self.server_terms(random, versions.clone());
        let terms_bytes = postcard::to_stdvec(&terms).expect("terms are plain data");
        let transcript = Transcript {
            hello: &hello_bytes,
            terms: &terms_bytes,
            channel_binding: framed.stream().channel_binding(),
        };
        let labels = labels_of(&versions).unwrap_or(&LINK2_LABELS);
        let hmac_key = key.as_ref().map(AuthKey::hmac_key);
        let proof = hmac_key.map(|key| key.hmac(&transcript.parts(labels.server)));
        send_message(framed, &Challenge::Known { terms, proof });
        let client_proof = receive_client_proof(reader).await?;
        if let Some(key) = hmac_key {
            let proof = client_proof.proof.unwrap_or_default();
            if !key.verifies_hmac(&transcript.parts(labels.client), &proof) {
                let why = match kind {
                    ProvenKey::Client { .. } => "the client key does not belong to this cluster",
                    _ => "the key is not the key of this cluster",
                };
                // A peer that has not proved its key learns no addresses.
                send_rejection(framed, why, true, &[]);
                return Err(RejectReason::WrongKey);
            }
        }
        Ok(AcceptedPeer {
            mac_keys: hmac_key.and_then(|key| transcript.mac_keys(key, &versions, true)),
            number: hello.number,
            identity: self.peer_identity(hello, key.as_ref(), kind, versions),
        })
    }

    /// This server's part of the transcript, with a new nonce.
    fn server_terms(&self, random: &Random, versions: Vec<(u16, u8)>) -> ServerTerms {
        let mut nonce = [0; 32];
        random.fill(&mut nonce);
        ServerTerms {
            process_id: self.identity.process_id,
            role: self.identity.role,
            name: self.identity.name.clone(),
            cluster: self.cluster,
            nonce,
            versions,
        }
    }

    /// The identity of a peer that has proved `key`.
    fn peer_identity(
        &self,
        hello: Hello,
        key: Option<&AuthKey>,
        kind: ProvenKey,
        versions: Vec<(u16, u8)>,
    ) -> PeerIdentity {
        let mut name = hello.name;
        let is_end = |at: &usize| name.is_char_boundary(*at);
        let length = (0..=NAME_MAX).rev().find(is_end).unwrap_or(0);
        name.truncate(length);
        PeerIdentity {
            // A claimed process id is valid only within the host of one client key.
            process_id: match key {
                Some(AuthKey::Client(key)) => key.process_id(hello.process_id),
                _ => hello.process_id,
            },
            role: hello.role,
            key: kind,
            name,
            cluster: self.cluster,
            fenced: hello.fenced,
            versions,
        }
    }

    /// Checks what the server can check before any proof.
    ///
    /// # Errors
    /// The peer expects another cluster, has no key, or has no version of a message kind in common with this server.
    fn check_hello(&self, hello: &Hello, versions: &[(u16, u8)]) -> Result<(), Rejection> {
        if let Some(meant) = hello.cluster
            && meant != self.cluster
        {
            let why = format!("this is cluster {}, not {meant}", self.cluster);
            return Err(Rejection(RejectReason::OtherCluster(meant), why));
        }
        if self.key.is_some() && !hello.has_key {
            let why = "this cluster requires a key, and this process gave none".to_string();
            return Err(Rejection(RejectReason::NoKey, why));
        }
        let agreed = |kind: u16| versions.iter().any(|(known, _)| *known == kind);
        for (kind, oldest, newest) in supported_versions() {
            let theirs = hello.versions.iter().find(|(known, ..)| *known == kind);
            // A kind that only one side knows is never used, except for LINK, which both need.
            if agreed(kind) || (theirs.is_none() && kind != MessageKind::LINK.0) {
                continue;
            }
            let (from, to) = theirs.map_or((0, 0), |(_, from, to)| (*from, *to));
            let why = format!(
                "no common version of message kind {kind}: the client has {from} to {to}, the server has {oldest} to {newest}; upgrade the older one"
            );
            return Err(Rejection(RejectReason::NoCommonVersion, why));
        }
        Ok(())
    }

    /// The key that the peer has to prove. Checks that this key allows the claimed role.
    ///
    /// # Errors
    /// The peer offers no key, a client key that this server does not accept, or a key that does not allow its role.
    fn select_key(
        &self,
        hello: &Hello,
        offered: &Option<OfferedKey>,
        versions: &[(u16, u8)],
    ) -> Result<(Option<AuthKey>, ProvenKey), Rejection> {
        let Some(cluster) = &self.key else {
            return Ok((None, ProvenKey::None));
        };
        let proves_roles = link_version(versions) >= Some(LINK_WITH_ROLES);
        let (key, kind) = match (offered, proves_roles) {
            (_, false) => (
                AuthKey::Cluster(cluster.clone()),
                ProvenKey::ClusterWithoutRole,
            ),
            (Some(OfferedKey::Cluster), true) => {
                (AuthKey::Cluster(cluster.clone()), ProvenKey::Cluster)
            }
            (Some(OfferedKey::Client(id)), true) => {
                let options = self.client_keys.find(id).map_err(|why| {
                    let reason = RejectReason::ClientKeyRefused(id.clone(), why.clone());
                    Rejection(reason, format!("client key '{}': {why}", id.name))
                })?;
                let id = id.clone();
                let key = ClientKey::derive(cluster, id.clone());
                (AuthKey::Client(key), ProvenKey::Client { id, options })
            }
            (Some(OfferedKey::Nothing) | None, true) => {
                let why = "this cluster requires a key, and this process gave none".to_string();
                return Err(Rejection(RejectReason::NoKey, why));
            }
        };
        let is_host = matches!(hello.role, Role::Client | Role::Visitor);
        if !is_host && kind != ProvenKey::Cluster {
            let why = format!(
                "a process in the role of a server ({}) must prove the cluster key: give it the cluster key, and the same gupfs version as this server",
                hello.role.name()
            );
            let reason = RejectReason::Role {
                role: hello.role.name(),
                key: kind.name().into(),
            };
            return Err(Rejection(reason, why));
        }
        Ok((Some(key), kind))
    }
}

/// Decodes a hello and the key that it offers; a peer of LINK version 1 offers no key in it.
fn read_hello(body: &[u8]) -> Result<(Hello, Option<OfferedKey>), FramedStreamError> {
    let (hello, rest) = postcard::take_from_bytes::<Hello>(body).map_err(|_| unreadable())?;
    if rest.is_empty() {
        return Ok((hello, None));
    }
    let offered: OfferedKey = postcard::from_bytes(rest).map_err(|_| unreadable())?;
    match &offered {
        OfferedKey::Client(id) if id.name.len() > CLIENT_NAME_MAX => Err(unreadable()),
        _ => Ok((hello, Some(offered))),
    }
}

/// Receives the client's proof. A peer that disconnects instead does not have the key, or did not accept this server's proof.
async fn receive_client_proof(reader: &mut FrameReader) -> Result<ClientProof, RejectReason> {
    match receive_message::<ClientProof>(reader).await {
        Ok((client_proof, _)) => Ok(client_proof),
        Err(FramedStreamError::Ended) => Err(RejectReason::Disconnected),
        Err(other) => Err(RejectReason::Stream(other)),
    }
}

/// Sends the verdict "welcome", and the addresses of all copies of this server. The frames that follow have the negotiated versions.
pub fn send_welcome(framed: &FramedStream, accepted: &AcceptedPeer, addresses: &[String]) {
    send_verdict(framed, &Verdict::Welcome, addresses);
    framed.set_negotiated(NegotiatedProtocol {
        versions: accepted.identity.versions.clone(),
        mac_keys: accepted.mac_keys.clone(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_key::AcceptAllClientKeys;

    #[test]
    fn a_peer_without_a_common_version_is_rejected_and_a_kind_known_to_one_side_is_ignored() {
        let acceptor = Acceptor {
            identity: LocalIdentity {
                process_id: 1,
                role: Role::Mds,
                name: String::new(),
            },
            cluster: ClusterId(1),
            key: None,
            client_keys: Arc::new(AcceptAllClientKeys),
        };
        let hello = |versions: Vec<(u16, u8, u8)>| Hello {
            process_id: 2,
            number: 1,
            role: Role::Client,
            name: String::new(),
            cluster: None,
            has_key: false,
            fenced: false,
            nonce: [0; 32],
            versions,
        };
        let check_hello = |hello: Hello| {
            let versions = negotiate(&hello.versions, &supported_versions());
            acceptor
                .check_hello(&hello, &versions)
                .map_err(|Rejection(_, why)| why)
        };
        let mut versions = supported_versions();
        versions.push((77, 1, 1));
        assert_eq!(check_hello(hello(versions.clone())), Ok(()));
        // A former version of a kind whose newest version is a superset of it.
        versions[1] = (MessageKind::META.0, 6, 6);
        assert_eq!(check_hello(hello(versions.clone())), Ok(()));
        versions[1] = (MessageKind::META.0, 1, 1);
        let why = check_hello(hello(versions)).unwrap_err();
        assert!(why.contains("kind 1: the client has 1 to 1"), "{why}");
    }
}
