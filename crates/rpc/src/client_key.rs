//! Keys of hosts that only mount: the cluster key and the client key's id give each of them, so servers store none.

use crate::key::{ClusterKey, HmacBytes};
use serde::{Deserialize, Serialize};
use std::fmt;

/// HMAC label of the derivation of a client key.
const CLIENT_KEY_LABEL: &[u8] = b"gupfs client key 1";

/// HMAC label of the derivation of a process id from the id that a process with a client key claims.
const PROCESS_LABEL: &[u8] = b"gupfs process 1";

/// Identifies a client key: a name for the administrator, and a random number generated with the key, so that a name that is
/// reused after a revocation gives another key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ClientKeyId {
    pub name: String,
    pub number: u64,
}

/// Largest name of a client key, in bytes.
pub const CLIENT_NAME_MAX: usize = 64;

impl ClientKeyId {
    /// Whether a client key may have this name: ASCII letters, digits, '.', '-', '_'; the name appears in files, lists and logs.
    pub fn is_valid_name(name: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        (1..=CLIENT_NAME_MAX).contains(&name.len()) && name.bytes().all(is_plain)
    }
}

impl fmt::Display for ClientKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{:016x}", self.name, self.number)
    }
}

/// The key of a host that only mounts. `Debug` prints its id, never its secret.
#[derive(Clone)]
pub struct ClientKey {
    pub id: ClientKeyId,
    secret: ClusterKey,
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientKey of {}", self.id)
    }
}

impl ClientKey {
    /// A key that was read from its file.
    pub fn new(id: ClientKeyId, secret: [u8; 32]) -> ClientKey {
        let secret = ClusterKey::new(secret);
        ClientKey { id, secret }
    }

    /// Each server that has the cluster key derives the same client key.
    pub fn derive(cluster: &ClusterKey, id: ClientKeyId) -> ClientKey {
        let secret = ClientKey::secret(cluster, &id);
        ClientKey::new(id, secret)
    }

    /// The secret bytes of the key's file.
    pub fn secret(cluster: &ClusterKey, id: &ClientKeyId) -> HmacBytes {
        cluster.hmac(&[
            CLIENT_KEY_LABEL,
            id.name.as_bytes(),
            &id.number.to_le_bytes(),
        ])
    }

    /// The id under which servers know a process of this key's host. A host with another client key cannot produce it, whatever
    /// id it claims.
    pub fn process_id(&self, claimed: u128) -> u128 {
        let mixed = self.secret.hmac(&[PROCESS_LABEL, &claimed.to_le_bytes()]);
        let mut first = [0; 16];
        first.copy_from_slice(&mixed[..16]);
        u128::from_le_bytes(first)
    }
}

/// The key that a process proves when it connects: the cluster key, or the client key of a host that only mounts.
#[derive(Clone, Debug)]
pub enum AuthKey {
    Cluster(ClusterKey),
    Client(ClientKey),
}

impl From<ClusterKey> for AuthKey {
    fn from(key: ClusterKey) -> AuthKey {
        AuthKey::Cluster(key)
    }
}

impl From<ClientKey> for AuthKey {
    fn from(key: ClientKey) -> AuthKey {
        AuthKey::Client(key)
    }
}

impl AuthKey {
    /// The key of the handshake's HMACs.
    pub(crate) fn hmac_key(&self) -> &ClusterKey {
        match self {
            AuthKey::Cluster(key) => key,
            AuthKey::Client(key) => &key.secret,
        }
    }

    /// None for a client key: its host is not a server.
    pub fn cluster_key(&self) -> Option<&ClusterKey> {
        match self {
            AuthKey::Cluster(key) => Some(key),
            AuthKey::Client(_) => None,
        }
    }
}

/// The key that the other side of a connection has proved.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ProvenKey {
    /// The server has no key and listens only on its own host: the handshake proves nothing.
    None,
    /// The cluster key, in a handshake of LINK version 1, which proves no role: the server treats the peer as a client or visitor
    /// with default options.
    ClusterWithoutRole,
    /// The cluster key.
    Cluster,
    /// The client key of one host.
    Client {
        id: ClientKeyId,
        options: ClientKeyOptions,
    },
}

/// Options of one client key in the list of client keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct ClientKeyOptions {
    /// Root of this host is root of the file system (NFS: no_root_squash).
    pub root: bool,
}

impl ProvenKey {
    /// Whether root of the host that proved this key is root of the file system. The address of the connection has no influence.
    pub fn is_root_trusted(&self) -> bool {
        match self {
            ProvenKey::Cluster => true,
            ProvenKey::Client { options, .. } => options.root,
            ProvenKey::None | ProvenKey::ClusterWithoutRole => false,
        }
    }

    /// For lists and logs.
    pub fn name(&self) -> &str {
        match self {
            ProvenKey::None => "no key",
            ProvenKey::ClusterWithoutRole => "the cluster's key, by a handshake of LINK version 1",
            ProvenKey::Cluster => "the cluster's key",
            ProvenKey::Client { id, .. } => &id.name,
        }
    }
}

/// The client keys that a server accepts.
pub trait ClientKeyList: Send + Sync + 'static {
    /// The options of this key.
    ///
    /// # Errors
    /// Why the server does not accept it.
    fn find(&self, key: &ClientKeyId) -> Result<ClientKeyOptions, String>;
}

/// For a server without a list: it accepts every client key that was derived from the cluster key. Session capabilities decide
/// what the client may do over the connection.
pub struct AcceptAllClientKeys;
impl ClientKeyList for AcceptAllClientKeys {
    fn find(&self, _: &ClientKeyId) -> Result<ClientKeyOptions, String> {
        Ok(ClientKeyOptions::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str, number: u64) -> ClientKeyId {
        let name = name.to_string();
        ClientKeyId { name, number }
    }

    #[test]
    fn cluster_name_and_number_each_change_a_client_key() {
        let cluster = ClusterKey::new([7; 32]);
        let secret = |cluster, id| ClientKey::secret(cluster, &id);
        let ours = secret(&cluster, name("node7", 1));
        assert_eq!(ours, secret(&cluster, name("node7", 1)));
        assert_ne!(ours, secret(&cluster, name("node7", 2)));
        assert_ne!(ours, secret(&cluster, name("node8", 1)));
        assert_ne!(ours, secret(&ClusterKey::new([8; 32]), name("node7", 1)));
    }

    #[test]
    fn a_host_cannot_claim_the_process_id_of_another_host() {
        let cluster = ClusterKey::new([7; 32]);
        let (a, b) = (name("a", 1), name("b", 1));
        let (a, b) = (
            ClientKey::derive(&cluster, a),
            ClientKey::derive(&cluster, b),
        );
        assert_eq!(a.process_id(5), a.process_id(5));
        assert_ne!(a.process_id(5), b.process_id(5));
        assert_ne!(a.process_id(5), 5);
    }

    #[test]
    fn names_have_only_plain_ascii_characters() {
        for good in ["node7", "a", "rack-1.node_2", &"x".repeat(64)] {
            assert!(ClientKeyId::is_valid_name(good), "{good}");
        }
        for bad in ["", "a b", "../x", "n\u{e9}", "a\n", &"x".repeat(65)] {
            assert!(!ClientKeyId::is_valid_name(bad), "{bad}");
        }
    }
}
