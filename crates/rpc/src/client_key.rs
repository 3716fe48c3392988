//! Keys of hosts that only mount: each is derived from the cluster's key, so that servers store none of them.

use crate::key::{ClusterKey, Proof};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a client key is derived for.
const DERIVING: &[u8] = b"gupfs client key 1";

/// What the process numbers of a client key's holder are mixed with.
const SCOPING: &[u8] = b"gupfs process 1";

/// Which client key: a name for people, and a number made at random with the key, so that a name that is given again after a
/// revocation gets another key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ClientName {
    pub name: String,
    pub number: u64,
}

/// Longest name of a client key, in bytes.
pub const CLIENT_NAME_MAX: usize = 64;

impl ClientName {
    /// Whether a name may be given: letters of ASCII, digits, '.', '-', '_'; it goes into files, lists and logs.
    pub fn is_good(name: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        (1..=CLIENT_NAME_MAX).contains(&name.len()) && name.bytes().all(is_plain)
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{:016x}", self.name, self.number)
    }
}

/// The key of a host that only mounts. Never shown.
#[derive(Clone)]
pub struct ClientKey {
    pub of: ClientName,
    secret: ClusterKey,
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientKey of {}", self.of)
    }
}

impl ClientKey {
    /// As it was read from its file.
    pub fn new(of: ClientName, secret: [u8; 32]) -> ClientKey {
        let secret = ClusterKey::new(secret);
        ClientKey { of, secret }
    }

    /// The same at each server that has the cluster's key.
    pub fn derive(cluster: &ClusterKey, of: ClientName) -> ClientKey {
        let secret = ClientKey::secret(cluster, &of);
        ClientKey::new(of, secret)
    }

    /// What is written into the key's file.
    pub fn secret(cluster: &ClusterKey, of: &ClientName) -> Proof {
        cluster.prove(&[DERIVING, of.name.as_bytes(), &of.number.to_le_bytes()])
    }

    /// A process of this key's holder, as servers know it: another holder cannot name it, whatever number it claims.
    pub fn process(&self, claimed: u128) -> u128 {
        let mixed = self.secret.prove(&[SCOPING, &claimed.to_le_bytes()]);
        let mut first = [0; 16];
        first.copy_from_slice(&mixed[..16]);
        u128::from_le_bytes(first)
    }
}

/// What a process shows when it connects: the cluster's key, or the key of a host that only mounts.
#[derive(Clone, Debug)]
pub enum Key {
    Cluster(ClusterKey),
    Client(ClientKey),
}

impl From<ClusterKey> for Key {
    fn from(key: ClusterKey) -> Key {
        Key::Cluster(key)
    }
}

impl From<ClientKey> for Key {
    fn from(key: ClientKey) -> Key {
        Key::Client(key)
    }
}

impl Key {
    /// The bytes that proofs are made with.
    pub(crate) fn proving(&self) -> &ClusterKey {
        match self {
            Key::Cluster(key) => key,
            Key::Client(key) => &key.secret,
        }
    }

    /// None for a client key: its holder is no server.
    pub fn of_cluster(&self) -> Option<&ClusterKey> {
        match self {
            Key::Cluster(key) => Some(key),
            Key::Client(_) => None,
        }
    }
}

/// What the other side of a connection has proved to have.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum KeyKind {
    /// The server has no key and listens to its own host alone: nothing is proved.
    None,
    /// The cluster's key, in a handshake of LINK 1, which proves no role: it is believed as a client or visitor whose
    /// options nobody set.
    Former,
    /// The cluster's key.
    Cluster,
    /// The key of one host that mounts.
    Client {
        of: ClientName,
        options: ClientOptions,
    },
}

/// What the list of client keys says of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct ClientOptions {
    /// Root of this host is root of the file system.
    pub root: bool,
}

impl KeyKind {
    /// Whether root of the host that proved this key is root of the file system. The address that it comes from decides
    /// nothing.
    pub fn root_counts(&self) -> bool {
        match self {
            KeyKind::Cluster => true,
            KeyKind::Client { options, .. } => options.root,
            KeyKind::None | KeyKind::Former => false,
        }
    }

    /// For lists and logs.
    pub fn name(&self) -> &str {
        match self {
            KeyKind::None => "no key",
            KeyKind::Former => "the cluster's key, by a former handshake",
            KeyKind::Cluster => "the cluster's key",
            KeyKind::Client { of, .. } => &of.name,
        }
    }
}

/// Which client keys a server lets in.
pub trait ClientKeys: Send + Sync + 'static {
    /// The options of this key.
    ///
    /// # Errors
    /// Why it is not let in.
    fn find(&self, key: &ClientName) -> Result<ClientOptions, String>;
}

/// A server without a list: it lets in every key that the cluster's key gives. What may be done over the connection is
/// decided by what else is shown.
pub struct EveryClientKey;
impl ClientKeys for EveryClientKey {
    fn find(&self, _: &ClientName) -> Result<ClientOptions, String> {
        Ok(ClientOptions::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str, number: u64) -> ClientName {
        let name = name.to_string();
        ClientName { name, number }
    }

    #[test]
    fn a_client_key_differs_with_the_cluster_the_name_and_the_number() {
        let cluster = ClusterKey::new([7; 32]);
        let secret = |cluster, of| ClientKey::secret(cluster, &of);
        let ours = secret(&cluster, name("node7", 1));
        assert_eq!(ours, secret(&cluster, name("node7", 1)));
        assert_ne!(ours, secret(&cluster, name("node7", 2)));
        assert_ne!(ours, secret(&cluster, name("node8", 1)));
        assert_ne!(ours, secret(&ClusterKey::new([8; 32]), name("node7", 1)));
    }

    #[test]
    fn a_host_cannot_name_a_process_of_another() {
        let cluster = ClusterKey::new([7; 32]);
        let (a, b) = (name("a", 1), name("b", 1));
        let (a, b) = (
            ClientKey::derive(&cluster, a),
            ClientKey::derive(&cluster, b),
        );
        assert_eq!(a.process(5), a.process(5));
        assert_ne!(a.process(5), b.process(5));
        assert_ne!(a.process(5), 5);
    }

    #[test]
    fn names_are_plain() {
        for good in ["node7", "a", "rack-1.node_2", &"x".repeat(64)] {
            assert!(ClientName::is_good(good), "{good}");
        }
        for bad in ["", "a b", "../x", "n\u{e9}", "a\n", &"x".repeat(65)] {
            assert!(!ClientName::is_good(bad), "{bad}");
        }
    }
}
