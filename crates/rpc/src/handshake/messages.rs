//! The messages of a handshake.

use crate::client_key::{ClientKeyId, ProvenKey};
use crate::key::HmacBytes;
use gupfs_proto::ClusterId;
pub use gupfs_proto::Role;
use gupfs_proto::wire::{MessageKind, SUPPORTED_VERSIONS};
use serde::{Deserialize, Serialize};

/// The identity of this process: the same for all its connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalIdentity {
    /// A random number, new at each start of the process.
    pub process_id: u128,
    pub role: Role,
    /// For the administrator: the host, and what the process serves or mounts.
    pub name: String,
}

/// The identity of the other side, from the handshake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerIdentity {
    pub process_id: u128,
    /// Proved with the key, unless the peer has no key.
    pub role: Role,
    /// The key that the peer proved; on the side that connects, the key that both sides proved.
    pub key: ProvenKey,
    pub name: String,
    pub cluster: ClusterId,
    /// The server accepts this connection only when all requests of its predecessor have ended.
    pub fenced: bool,
    /// The negotiated version of each message kind; kinds that only one side knows are missing.
    pub versions: Vec<(u16, u8)>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Hello {
    pub process_id: u128,
    /// Rises with each connection of this process to this server.
    pub number: u64,
    pub role: Role,
    pub name: String,
    /// The expected cluster; None accepts any.
    pub cluster: Option<ClusterId>,
    pub has_key: bool,
    pub fenced: bool,
    pub nonce: [u8; 32],
    /// (kind, oldest version, newest version)
    pub versions: Vec<(u16, u8, u8)>,
}

/// The key that the client will prove. It follows the hello since LINK version 2.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum OfferedKey {
    Nothing,
    Cluster,
    Client(ClientKeyId),
}

#[derive(Serialize, Deserialize)]
pub(super) enum Challenge {
    Known {
        terms: ServerTerms,
        /// The HMAC over the hello and the terms; None if the server has no key.
        proof: Option<HmacBytes>,
    },
    Rejected(Rejected),
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ServerTerms {
    pub process_id: u128,
    pub role: Role,
    pub name: String,
    pub cluster: ClusterId,
    pub nonce: [u8; 32],
    pub versions: Vec<(u16, u8)>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ClientProof {
    pub proof: Option<HmacBytes>,
}

#[derive(PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Verdict {
    Welcome,
    Rejected(Rejected),
}

/// The addresses of all copies of the server. They follow the verdict in the same body, unless there are none; peers of former versions
/// ignore them.
#[derive(Serialize, Deserialize)]
pub(super) struct ServerList {
    pub addresses: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Rejected {
    pub why: String,
    /// A new attempt fails too.
    pub is_permanent: bool,
}

/// HMAC labels that separate the uses of the key: no HMAC made for one purpose or version is valid for another.
pub(super) struct HmacLabels {
    pub server: &'static [u8],
    pub client: &'static [u8],
    /// Labels of the frame MAC keys, by direction.
    pub to_server: &'static [u8],
    pub to_client: &'static [u8],
}

/// The labels of LINK version 1, whose frames have no MAC.
pub(super) const LINK1_LABELS: HmacLabels = HmacLabels {
    server: b"gupfs handshake 1: server",
    client: b"gupfs handshake 1: client",
    to_server: b"",
    to_client: b"",
};

/// The labels of LINK since version 2.
pub(super) const LINK2_LABELS: HmacLabels = HmacLabels {
    server: b"gupfs handshake 2: server",
    client: b"gupfs handshake 2: client",
    to_server: b"gupfs frames 2: to the server",
    to_client: b"gupfs frames 2: to the client",
};

/// The first version of LINK that proves roles and adds a MAC to each frame.
pub(super) const LINK_WITH_ROLES: u8 = 2;

/// The first version of LINK with `Flags::CHECKSUMMED`.
pub(super) const LINK_WITH_CHECKSUMMED: u8 = 3;

/// The negotiated version of LINK; None if there is none.
pub(super) fn link_version(versions: &[(u16, u8)]) -> Option<u8> {
    let link = (versions.iter()).find(|(kind, _)| *kind == MessageKind::LINK.0);
    link.map(|(_, version)| *version)
}

/// The labels of the negotiated LINK version; None if there is none.
pub(super) fn labels_of(versions: &[(u16, u8)]) -> Option<&'static HmacLabels> {
    link_version(versions).map(|version| match version >= LINK_WITH_ROLES {
        true => &LINK2_LABELS,
        false => &LINK1_LABELS,
    })
}

/// The versions that a server accepts: (kind, oldest, newest).
pub(crate) fn supported_versions() -> Vec<(u16, u8, u8)> {
    let kinds = SUPPORTED_VERSIONS.iter();
    kinds
        .map(|(kind, oldest, newest)| (kind.0, *oldest, *newest))
        .collect()
}

/// The versions that a connecting process offers.
pub(crate) fn offered_versions() -> Vec<(u16, u8, u8)> {
    let kinds = SUPPORTED_VERSIONS.iter();
    kinds
        .map(|(kind, _, newest)| (kind.0, kind.oldest_offered(), *newest))
        .collect()
}

/// The newest common version of each message kind.
pub(super) fn negotiate(theirs: &[(u16, u8, u8)], ours: &[(u16, u8, u8)]) -> Vec<(u16, u8)> {
    let mut agreed = Vec::new();
    for (kind, oldest, newest) in ours {
        let same = theirs.iter().find(|(known, ..)| known == kind);
        if let Some((_, from, to)) = same {
            let version = (*newest).min(*to);
            if version >= (*oldest).max(*from) {
                agreed.push((*kind, version));
            }
        }
    }
    agreed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_is_chosen_and_kinds_without_one_are_missing() {
        let ours = [(1, 1, 3), (2, 2, 2), (3, 1, 1)];
        let theirs = [(1, 2, 9), (2, 3, 4), (4, 1, 1)];
        assert_eq!(negotiate(&theirs, &ours), [(1, 3)]);
    }
}
