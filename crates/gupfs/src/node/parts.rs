//! The roles and connections of one process.

use crate::metrics::Calls;
use crate::store_dir::StoreDir;
use gupfs_client::Client;
use gupfs_copies::{MetadataCopy, Ownership};
use gupfs_mds::Mds;
use gupfs_mount::Mount;
use gupfs_oss::Oss;
use gupfs_platform::{BootTime, Platform};
use gupfs_proto::ClusterId;
use gupfs_rpc::{ClientConnection, ConnectedPeer, OssConnections, RpcServer};
use std::sync::{Arc, OnceLock};

/// The parts of a process; replies about it (status, metrics, control requests) are made from them.
pub struct Parts {
    /// The store's directory or the mount point, for messages.
    pub name: String,
    pub cluster: ClusterId,
    pub platform: Platform,
    pub started: BootTime,
    /// The store's directory; None for a mount without a store and for an object server.
    pub store_dir: Option<StoreDir>,
    /// Set when this process serves the metadata.
    pub mds: OnceLock<Arc<Mds>>,
    /// This process's copy of the metadata, where the metadata has several.
    pub copy: Option<Arc<MetadataCopy>>,
    /// Set when this process owns the metadata of which others have copies.
    pub ownership: OnceLock<Arc<Ownership>>,
    pub oss: Option<Arc<Oss>>,
    pub client: Option<Arc<Client>>,
    pub calls: Arc<Calls>,
    /// Set after the mount.
    pub mount: OnceLock<Arc<Mount>>,
    /// Set when the process accepts connections.
    pub server: OnceLock<RpcServer>,
    /// The connection to the metadata server, if that is another process.
    pub mds_connection: Option<Arc<ClientConnection>>,
    /// The connections to object servers in other processes.
    pub oss_connections: Vec<Arc<OssConnections>>,
}

impl Parts {
    pub fn new(name: String, cluster: ClusterId, platform: &Platform, started: BootTime) -> Parts {
        Parts {
            name,
            cluster,
            platform: platform.clone(),
            started,
            store_dir: None,
            mds: OnceLock::new(),
            copy: None,
            ownership: OnceLock::new(),
            oss: None,
            client: None,
            calls: Arc::default(),
            mount: OnceLock::new(),
            server: OnceLock::new(),
            mds_connection: None,
            oss_connections: Vec::new(),
        }
    }

    /// A function that returns the peers of all accepted connections.
    pub fn connected_peers(self: &Arc<Self>) -> impl Fn() -> Vec<Arc<ConnectedPeer>> + use<> {
        let weak = Arc::downgrade(self);
        move || {
            let parts = weak.upgrade();
            let server = parts.as_ref().and_then(|parts| parts.server.get());
            server.map(RpcServer::peers).unwrap_or_default()
        }
    }
}
