//! Who this process is among the others.

use gupfs_platform::{Net, Platform};
use gupfs_rpc::{ClusterKey, Hosts, Key, LineOptions, Myself, Role, Tls};

/// What every connection of this process has in common.
#[derive(Clone)]
pub struct Identity {
    pub platform: Platform,
    pub net: Net,
    /// What it proves to servers: the cluster's key, or a client key.
    pub key: Option<Key>,
    /// None: connections are not encrypted.
    pub tls: Option<Tls>,
    /// As people know it.
    host: String,
    who: u128,
}

impl Identity {
    pub fn new(platform: &Platform, net: Net, host: String, key: Option<Key>) -> Identity {
        let mut who = [0; 16];
        platform.dice.fill(&mut who);
        Identity {
            platform: platform.clone(),
            net,
            key,
            tls: None,
            host,
            who: u128::from_le_bytes(who),
        }
    }

    /// All its connections are encrypted.
    pub fn with_tls(self, tls: Option<Tls>) -> Identity {
        Identity { tls, ..self }
    }

    /// With the same key, and a name of its own among connections.
    pub fn another(&self) -> Identity {
        Identity::new(
            &self.platform,
            self.net.clone(),
            self.host.clone(),
            self.key.clone(),
        )
        .with_tls(self.tls.clone())
    }

    /// The cluster's key, if it has that: a host that only mounts does not.
    pub fn cluster_key(&self) -> Option<ClusterKey> {
        self.key.as_ref().and_then(Key::of_cluster).cloned()
    }

    /// As somebody in a role; `what` it serves or mounts is shown to people.
    pub fn myself(&self, role: Role, what: &str) -> Myself {
        Myself {
            who: self.who,
            role,
            name: format!("{}:{what}", self.host),
        }
    }

    /// How the metadata server at `to` is reached, by who belongs to its cluster; who waits for an answer waits as long as it
    /// takes.
    pub fn line_to_mds(&self, to: &str, me: &Myself, hosts: Hosts) -> LineOptions {
        LineOptions {
            to: to.into(),
            whom: "the metadata server".into(),
            net: self.net.clone(),
            platform: self.platform.clone(),
            me: me.clone(),
            cluster: None,
            key: self.key.clone(),
            tls: self.tls.clone(),
            patience: None,
            fence: false,
            hosts,
        }
    }
}
