//! Connections to object servers, one per address.

use crate::ProcessIdentity;
use gupfs_proto::{ClusterId, data};
use gupfs_rpc::{
    ClientConnection, ClientConnectionOptions, ClientConnectionStatus, Handlers, LocalIdentity,
    Peer,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

type Ost = Peer<data::DataRequest, data::DataReply>;

/// A connection is open as long as a `Peer` of it exists.
pub struct OssConnections {
    identity: ProcessIdentity,
    local_identity: LocalIdentity,
    cluster: ClusterId,
    /// The address of the metadata server, which an empty address stands for.
    mds_address: String,
    connections: Mutex<BTreeMap<String, Weak<ClientConnection>>>,
}

impl OssConnections {
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
            address: address.to_string(),
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
        });
        connections.insert(address.to_string(), Arc::downgrade(&connection));
        connection
    }

    pub fn status(&self) -> Vec<ClientConnectionStatus> {
        let connections = self.connections.lock();
        let open = connections.values().filter_map(Weak::upgrade);
        open.map(|connection| connection.status()).collect()
    }
}

impl gupfs_client::Dial for OssConnections {
    fn dial(&self, address: &str) -> Ost {
        self.connection_to(address).peer()
    }
}

impl gupfs_mds::osts::DialOss for OssConnections {
    fn dial(&self, address: &str) -> Ost {
        self.connection_to(address).peer()
    }
}
