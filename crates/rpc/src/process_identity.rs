//! The identity of this process in the cluster.

use crate::client::ClientConnectionOptions;
use crate::client_key::AuthKey;
use crate::handler::Handlers;
use crate::handshake::{LocalIdentity, Role};
use crate::key::ClusterKey;
use crate::send_deadline::SendDeadline;
use crate::server_addresses::ServerAddresses;
use crate::tls::TlsConfig;
use gupfs_platform::{Net, Platform};
use std::sync::Arc;

/// The properties that all connections of this process share.
#[derive(Clone)]
pub struct ProcessIdentity {
    pub platform: Platform,
    pub net: Net,
    /// The key that it proves to servers: the cluster key, or a client key.
    pub key: Option<AuthKey>,
    /// None: connections are not encrypted.
    pub tls: Option<TlsConfig>,
    /// Until when this process may send to object servers (`OssConnections`).
    pub send_deadline: SendDeadline,
    /// The host name, for messages.
    host: String,
    process_id: u128,
}

impl ProcessIdentity {
    /// The identity of a process that starts now: with a new process id, without TLS.
    pub fn new(
        platform: &Platform,
        net: Net,
        host: String,
        key: Option<AuthKey>,
    ) -> ProcessIdentity {
        let mut process_id = [0; 16];
        platform.random.fill(&mut process_id);
        ProcessIdentity {
            platform: platform.clone(),
            net,
            key,
            tls: None,
            send_deadline: SendDeadline::none(),
            host,
            process_id: u128::from_le_bytes(process_id),
        }
    }

    /// With TLS on all its connections.
    pub fn with_tls(self, tls: Option<TlsConfig>) -> ProcessIdentity {
        ProcessIdentity { tls, ..self }
    }

    /// With this deadline for what it sends to object servers.
    pub fn with_send_deadline(self, send_deadline: SendDeadline) -> ProcessIdentity {
        ProcessIdentity {
            send_deadline,
            ..self
        }
    }

    /// The same key with another process id, for connections that must not replace this one's.
    pub fn with_new_process_id(&self) -> ProcessIdentity {
        ProcessIdentity::new(
            &self.platform,
            self.net.clone(),
            self.host.clone(),
            self.key.clone(),
        )
        .with_tls(self.tls.clone())
        .with_send_deadline(self.send_deadline.clone())
    }

    /// The cluster key, if this process has it: a host that only mounts does not.
    pub fn cluster_key(&self) -> Option<ClusterKey> {
        self.key.as_ref().and_then(AuthKey::cluster_key).cloned()
    }

    /// The identity in this role; messages show `what` it serves or mounts.
    pub fn local_identity(&self, role: Role, what: &str) -> LocalIdentity {
        LocalIdentity {
            process_id: self.process_id,
            role,
            name: format!("{}:{what}", self.host),
        }
    }

    /// Options of a connection to the metadata server at one of these addresses. A request waits for its reply without a timeout.
    pub fn mds_connection_options(
        &self,
        addresses: &Arc<ServerAddresses>,
        local_identity: &LocalIdentity,
        handlers: Handlers,
    ) -> ClientConnectionOptions {
        ClientConnectionOptions {
            addresses: addresses.clone(),
            peer_name: "the metadata server".into(),
            net: self.net.clone(),
            platform: self.platform.clone(),
            identity: local_identity.clone(),
            cluster: None,
            key: self.key.clone(),
            tls: self.tls.clone(),
            request_timeout: None,
            fence: false,
            handlers,
            send_deadline: SendDeadline::none(),
        }
    }
}
