//! The handshake on the side that connects.

use super::messages::{
    Challenge, ClientProof, Hello, LINK2_LABELS, OfferedKey, Rejected, ServerTerms, Verdict,
    labels_of, negotiate, offered_versions,
};
use super::verdict::receive_verdict;
use super::{LocalIdentity, PeerIdentity, Transcript, receive_message, send_message};
use crate::client_key::{AuthKey, ClientKeyOptions, ProvenKey};
use crate::frame_mac::FrameMacKeys;
use crate::framed_stream::{FrameReader, FramedStream, FramedStreamError, NegotiatedProtocol};
use crate::key::HmacBytes;
use crate::server_addresses::ServerAddresses;
use gupfs_platform::Random;
use gupfs_proto::ClusterId;

/// Why the handshake with a server failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    #[error(transparent)]
    Stream(#[from] FramedStreamError),
    /// With `is_permanent` a new attempt fails too.
    #[error("the server rejected the connection: {why}")]
    Rejected { why: String, is_permanent: bool },
    #[error("the server did not prove that it has the key of this cluster")]
    ServerNotProven,
    #[error("the server runs an older gupfs that does not prove roles: upgrade the server first")]
    ServerTooOld,
    #[error(
        "the server has no key, but this process has one: the server does not belong to this cluster"
    )]
    ServerWithoutKey,
    #[error("the server belongs to cluster {0}, not to the expected cluster")]
    OtherCluster(ClusterId),
}

impl HandshakeError {
    /// A new attempt fails too until the administrator has changed something.
    pub fn is_permanent(&self) -> bool {
        match self {
            HandshakeError::Stream(FramedStreamError::Tls(fault)) => fault.is_permanent(),
            HandshakeError::Stream(_) => false,
            HandshakeError::Rejected { is_permanent, .. } => *is_permanent,
            HandshakeError::ServerNotProven
            | HandshakeError::ServerTooOld
            | HandshakeError::ServerWithoutKey
            | HandshakeError::OtherCluster(_) => true,
        }
    }
}

/// Options of a connection in its handshake.
#[derive(Clone, Copy)]
pub struct HandshakeOptions<'a> {
    /// Higher than the numbers of this process's previous connections to this server.
    pub number: u64,
    pub cluster: Option<ClusterId>,
    pub key: Option<&'a AuthKey>,
    pub fenced: bool,
}

/// A server that has proved its key, and to which this process has sent its own proof.
pub struct ProvenServer {
    identity: PeerIdentity,
    mac_keys: Option<FrameMacKeys>,
}

/// Performs the handshake up to the verdict, with the versions of this program. `ProvenServer::receive_verdict` waits for the verdict.
///
/// # Errors
/// The stream ended, the server rejected this process, did not prove its key, belongs to another cluster or chose versions that
/// were not offered.
pub async fn connect_handshake(
    framed: &FramedStream,
    reader: &mut FrameReader,
    random: &Random,
    identity: &LocalIdentity,
    options: HandshakeOptions<'_>,
) -> Result<ProvenServer, HandshakeError> {
    let offers = offered_versions();
    exchange_proofs(framed, reader, random, identity, options, offers).await
}

/// Performs the handshake with these versions: (kind, oldest, newest).
///
/// # Errors
/// As of `connect_handshake` and `ProvenServer::receive_verdict`.
#[cfg(any(test, fuzzing))]
pub(crate) async fn connect_handshake_with_versions(
    framed: &FramedStream,
    reader: &mut FrameReader,
    random: &Random,
    identity: &LocalIdentity,
    options: HandshakeOptions<'_>,
    offers: Vec<(u16, u8, u8)>,
) -> Result<PeerIdentity, HandshakeError> {
    let server = exchange_proofs(framed, reader, random, identity, options, offers).await?;
    let addresses = ServerAddresses::one("");
    server.receive_verdict(framed, reader, &addresses).await
}

async fn exchange_proofs(
    framed: &FramedStream,
    reader: &mut FrameReader,
    random: &Random,
    identity: &LocalIdentity,
    options: HandshakeOptions<'_>,
    offers: Vec<(u16, u8, u8)>,
) -> Result<ProvenServer, HandshakeError> {
    let hello = hello(random, identity, options, offers.clone());
    let hello = send_message(framed, &(hello, offered_key(options.key)));
    let (terms, proof) = match receive_message::<Challenge>(reader).await?.0 {
        Challenge::Known { terms, proof } => (terms, proof),
        Challenge::Rejected(rejected) => return Err(rejected.into()),
    };
    check_versions(&terms, &offers)?;
    let labels = labels_of(&terms.versions).unwrap_or(&LINK2_LABELS);
    let terms_bytes = postcard::to_stdvec(&terms).expect("terms are plain data");
    let transcript = Transcript {
        hello: &hello,
        terms: &terms_bytes,
        channel_binding: framed.stream().channel_binding(),
    };
    check_server_proof(
        options.key,
        proof.as_ref(),
        &transcript.parts(labels.server),
    )?;
    if options.cluster.is_some_and(|meant| meant != terms.cluster) {
        return Err(HandshakeError::OtherCluster(terms.cluster));
    }
    let proof = options
        .key
        .map(|key| key.hmac_key().hmac(&transcript.parts(labels.client)));
    send_message(framed, &ClientProof { proof });
    let mac_keys = options
        .key
        .and_then(|key| transcript.mac_keys(key.hmac_key(), &terms.versions, false));
    Ok(ProvenServer {
        identity: PeerIdentity {
            process_id: terms.process_id,
            role: terms.role,
            key: proven_key(options.key),
            name: terms.name,
            cluster: terms.cluster,
            fenced: options.fenced,
            versions: terms.versions,
        },
        mac_keys,
    })
}

impl ProvenServer {
    /// Waits for the server's verdict. From here on frames have the negotiated versions. `addresses` learns the addresses that the server
    /// names, unless the connection is fenced: such a connection relies on one process.
    ///
    /// # Errors
    /// The stream ended, or the server rejected this process.
    pub async fn receive_verdict(
        self,
        framed: &FramedStream,
        reader: &mut FrameReader,
        addresses: &ServerAddresses,
    ) -> Result<PeerIdentity, HandshakeError> {
        let (verdict, named) = receive_verdict(reader).await?;
        if !named.is_empty() && !self.identity.fenced {
            addresses.learn(named);
        }
        if let Verdict::Rejected(rejected) = verdict {
            return Err(rejected.into());
        }
        framed.set_negotiated(NegotiatedProtocol {
            versions: self.identity.versions.clone(),
            mac_keys: self.mac_keys,
        });
        Ok(self.identity)
    }
}

/// The hello of this process, with a new nonce.
fn hello(
    random: &Random,
    identity: &LocalIdentity,
    options: HandshakeOptions<'_>,
    versions: Vec<(u16, u8, u8)>,
) -> Hello {
    let mut nonce = [0; 32];
    random.fill(&mut nonce);
    Hello {
        process_id: identity.process_id,
        number: options.number,
        role: identity.role,
        name: identity.name.clone(),
        cluster: options.cluster,
        has_key: options.key.is_some(),
        fenced: options.fenced,
        nonce,
        versions,
    }
}

fn offered_key(key: Option<&AuthKey>) -> OfferedKey {
    match key {
        None => OfferedKey::Nothing,
        Some(AuthKey::Cluster(_)) => OfferedKey::Cluster,
        Some(AuthKey::Client(key)) => OfferedKey::Client(key.id.clone()),
    }
}

impl From<Rejected> for HandshakeError {
    fn from(rejected: Rejected) -> HandshakeError {
        HandshakeError::Rejected {
            why: rejected.why,
            is_permanent: rejected.is_permanent,
        }
    }
}

/// Checks that the server has proved the key of this process, if it has one: the client proves nothing to another server.
fn check_server_proof(
    key: Option<&AuthKey>,
    proof: Option<&HmacBytes>,
    parts: &[&[u8]],
) -> Result<(), HandshakeError> {
    match (key, proof) {
        (Some(key), Some(proof)) => match key.hmac_key().verifies_hmac(parts, proof) {
            true => Ok(()),
            false => Err(HandshakeError::ServerNotProven),
        },
        (Some(_), None) => Err(HandshakeError::ServerWithoutKey),
        // The server requires no key: a server without one listens only on its own host.
        (None, _) => Ok(()),
    }
}

/// Checks that the server chose among the offered versions. A kind that the server does not know is missing, except for LINK.
fn check_versions(terms: &ServerTerms, offers: &[(u16, u8, u8)]) -> Result<(), HandshakeError> {
    let kinds: Vec<_> = (terms.versions.iter())
        .map(|(kind, version)| (*kind, *version, *version))
        .collect();
    if negotiate(&kinds, offers).len() != kinds.len() {
        return Err(FramedStreamError::Handshake(
            "the server chose a version that was not offered",
        )
        .into());
    }
    match labels_of(&terms.versions) {
        Some(_) => Ok(()),
        None => Err(HandshakeError::ServerTooOld),
    }
}

fn proven_key(key: Option<&AuthKey>) -> ProvenKey {
    match key {
        None => ProvenKey::None,
        Some(AuthKey::Cluster(_)) => ProvenKey::Cluster,
        Some(AuthKey::Client(key)) => ProvenKey::Client {
            id: key.id.clone(),
            options: ClientKeyOptions::default(),
        },
    }
}
