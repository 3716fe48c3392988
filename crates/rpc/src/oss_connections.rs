//! Connections to object servers, one per address.

use crate::client::{ClientConnection, ClientConnectionOptions, ClientConnectionStatus};
use crate::handler::Handlers;
use crate::handshake::LocalIdentity;
use crate::peer::Peer;
use crate::process_identity::ProcessIdentity;
use crate::server_addresses::ServerAddresses;
use gupfs_proto::{ClusterId, data};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// How a client or a metadata server reaches object servers of other processes.
pub trait DialOss: Send + Sync + 'static {
    /// A peer that connects by itself, and reconnects when its connection breaks. The same address returns the same connection.
    fn dial(&self, address: &str) -> Peer<data::DataRequest, data::DataReply>;
}

/// The connections of one process, in one role, to object servers. A connection is open as long as a `Peer` of it exists.
pub struct OssConnections {
    identity: ProcessIdentity,
    local_identity: LocalIdentity,
    cluster: ClusterId,
    /// The address of the metadata server, which an empty address stands for.
    mds_address: String,
    connections: Mutex<BTreeMap<String, Weak<ClientConnection>>>,
}

impl OssConnections {
    /// No connection yet; each is made when its address is first dialed.
    pub fn new(
        identity: &ProcessIdentity,
        local_identity: LocalIdentity,
        cluster: ClusterId,
        mds_address: &str,
    ) -> Arc<OssConnections> {
        Arc::new(OssConnections {
            identity: identity.clone(),
            local_identity,
            cluster,
            mds_address: mds_address.to_string(),
            connections: Mutex::default(),
        })
    }

    fn connection_to(&self, address: &str) -> Arc<ClientConnection> {
        let address = match address {
            "" => &self.mds_address,
            other => other,
        };
        let mut connections = self.connections.lock();
        connections.retain(|_, connection| connection.strong_count() > 0);
        if let Some(connection) = connections.get(address).and_then(Weak::upgrade) {
            return connection;
        }
        let connection = ClientConnection::connect(ClientConnectionOptions {
            addresses: ServerAddresses::one(address),
            peer_name: "an object server".into(),
            net: self.identity.net.clone(),
            platform: self.identity.platform.clone(),
            identity: self.local_identity.clone(),
            cluster: Some(self.cluster),
            key: self.identity.key.clone(),
            tls: self.identity.tls.clone(),
            // Each caller has a timeout of its own; a request that it cancels must not take effect later.
            request_timeout: None,
            fence: true,
            handlers: Handlers::none(),
            send_deadline: self.identity.send_deadline.clone(),
        });
        connections.insert(address.to_string(), Arc::downgrade(&connection));
        connection
    }

    /// The status of each open connection.
    pub fn status(&self) -> Vec<ClientConnectionStatus> {
        let connections = self.connections.lock();
        let open = connections.values().filter_map(Weak::upgrade);
        open.map(|connection| connection.status()).collect()
    }
}

impl DialOss for OssConnections {
    fn dial(&self, address: &str) -> Peer<data::DataRequest, data::DataReply> {
        self.connection_to(address).peer()
    }
}
