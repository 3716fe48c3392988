//! The host of a metadata server without copies: the parts that `gupfs mds` composes, simulated.

use super::host::{Host, HostOptions, Store};
use super::metadata_parts::{ServedMetadata, log_options, mds_options};
use super::request_monitor::{MonitoredMeta, RequestMonitor};
use super::{CLUSTER, MDS_ADDRESS};
use gupfs_mds::{Mds, MetaHandler};
use gupfs_platform::fake::FakePlatform;
use gupfs_proto::cluster;
use gupfs_rpc::{
    AcceptAllClientKeys, AdmitAll, Capacity, Handlers, OssConnections, Role, RpcServer,
    RpcServerOptions, SendDeadline,
};
use gupfs_store::kv::{Kv, KvOptions};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

pub struct MetadataHost {
    pub host: Host,
    pub store: Store,
    monitor: Arc<RequestMonitor>,
    process: Mutex<Option<Process>>,
    /// The running server's store, for checks of its records.
    records: Mutex<Weak<Kv>>,
}

struct Process {
    platform: FakePlatform,
    serving: Option<(Arc<Mds>, RpcServer)>,
}

impl MetadataHost {
    pub fn new(options: &HostOptions) -> MetadataHost {
        let host = options.host("mds");
        MetadataHost {
            store: host.store(),
            host,
            monitor: options.monitor.clone(),
            process: Mutex::new(None),
            records: Mutex::default(),
        }
    }

    /// # Errors
    /// When its disk fails during the start.
    pub async fn start(&self) -> Result<(), String> {
        self.monitor.metadata_server_starts();
        let platform = self.host.platform();
        *self.process.lock() = Some(Process {
            platform: platform.clone(),
            serving: None,
        });
        let serving = self.serve(&platform).await?;
        if let Some(process) = &mut *self.process.lock() {
            process.serving = Some(serving);
        }
        Ok(())
    }

    async fn serve(&self, platform: &FakePlatform) -> Result<(Arc<Mds>, RpcServer), String> {
        let identity = self.host.identity(platform);
        let listener = identity.net.listen(MDS_ADDRESS).await;
        let listener = listener.map_err(|error| error.to_string())?;
        let local_identity = identity.local_identity(Role::Mds, "store");
        let oss_connections = OssConnections::new(&identity, local_identity.clone(), CLUSTER, "");
        let platform = platform.platform();
        let disk = self.store.handle();
        let options = KvOptions::new(log_options());
        let opened = Kv::open(disk.clone(), self.store.index(), options, platform.clone()).await;
        let (kv, found) = opened.map_err(|error| error.to_string())?;
        if found.log.torn_tail.is_some() {
            self.monitor.count("torn log record");
        }
        let kv = Arc::new(kv);
        *self.records.lock() = Arc::downgrade(&kv);
        let dial = (&identity, oss_connections);
        let options = mds_options((kv, found), disk, platform.clone(), dial);
        let mds = Mds::start(options)
            .await
            .map_err(|error| error.to_string())?;
        // Root squash applies to other hosts: a client that acts on an open file shows the open capability.
        let handler = MetaHandler::new(mds.clone(), true);
        let monitored = Arc::new(MonitoredMeta {
            handler: handler.clone(),
            monitor: self.monitor.clone(),
            send_deadline: SendDeadline::none(),
        });
        let options = RpcServerOptions {
            tls: None,
            platform,
            identity: local_identity,
            cluster: CLUSTER,
            key: identity.cluster_key(),
            client_keys: Arc::new(AcceptAllClientKeys),
            handlers: Handlers::none()
                .with_peer_handler(monitored)
                .with_service::<cluster::ClusterRequest, cluster::ClusterReply, _>(mds.clone()),
            observer: handler,
            capacity: Capacity::for_clients(64),
            admission: Arc::new(AdmitAll),
            send_deadline: SendDeadline::none(),
        };
        Ok((mds, RpcServer::start(listener, options)))
    }

    /// None while the server does not run.
    pub fn serving(&self) -> Option<ServedMetadata> {
        let process = self.process.lock();
        let serving = process.as_ref()?.serving.as_ref()?;
        Some(ServedMetadata {
            mds: serving.0.clone(),
            records: self.records.lock().clone(),
        })
    }

    /// Ends the process without a shutdown. With `power_loss`, its disk loses unsynced bytes.
    pub async fn end(&self, power_loss: bool) {
        self.store.disk.kill();
        let process = self.process.lock().take();
        if let Some(process) = process {
            self.host.end(&process.platform).await;
        }
        self.store.restart(power_loss, &self.host.random());
    }
}
