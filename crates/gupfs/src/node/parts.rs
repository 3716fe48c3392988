//! What runs in one process: any of the roles.

use crate::cluster::OssConnections;
use crate::metrics::Calls;
use crate::store_dir::StoreDir;
use gupfs_client::Client;
use gupfs_mds::Mds;
use gupfs_mount::Mount;
use gupfs_oss::Oss;
use gupfs_platform::{BootTime, Platform};
use gupfs_proto::ClusterId;
use gupfs_rpc::{ClientConnection, ConnectedPeer, RpcServer};
use std::sync::{Arc, OnceLock};

/// Everything that an answer about this process may need.
pub struct Parts {
    /// What people know it by: a directory, a mount point.
    pub name: String,
    pub cluster: ClusterId,
    pub platform: Platform,
    pub started: BootTime,
    /// The store in whose directory the roles live, if they do.
    pub store_dir: Option<StoreDir>,
    pub mds: Option<Arc<Mds>>,
    pub oss: Option<Arc<Oss>>,
    pub client: Option<Arc<Client>>,
    pub calls: Arc<Calls>,
    /// Set when it is mounted.
    pub mount: OnceLock<Arc<Mount>>,
    /// Set when others are let in.
    pub server: OnceLock<RpcServer>,
    /// The line to the metadata server, where that is elsewhere.
    pub line: Option<Arc<ClientConnection>>,
    /// Lines to object servers elsewhere.
    pub lines: Vec<Arc<OssConnections>>,
}

impl Parts {
    pub fn new(name: String, cluster: ClusterId, platform: &Platform, started: BootTime) -> Parts {
        Parts {
            name,
            cluster,
            platform: platform.clone(),
            started,
            store_dir: None,
            mds: None,
            oss: None,
            client: None,
            calls: Arc::default(),
            mount: OnceLock::new(),
            server: OnceLock::new(),
            line: None,
            lines: Vec::new(),
        }
    }

    /// Who is connected to us, whenever that is asked.
    pub fn callers(self: &Arc<Self>) -> impl Fn() -> Vec<Arc<ConnectedPeer>> + use<> {
        let weak = Arc::downgrade(self);
        move || {
            let parts = weak.upgrade();
            let server = parts.as_ref().and_then(|parts| parts.server.get());
            server.map(RpcServer::peers).unwrap_or_default()
        }
    }
}
