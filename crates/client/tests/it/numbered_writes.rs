//! Writes of files that several clients write are numbered, so that a repeated one does not overwrite a later one.

use crate::real_servers::{Servers, TARGETS};
use crate::shared_cluster::SharedCluster;
use crate::user::User;
use gupfs_client::{Client, OpenFile, OstPeer, Route, SessionOptions};
use gupfs_oss::Oss;
use gupfs_proto::capability::DataCredentials;
use gupfs_proto::data::{DataOp, DataReply, DataRequest, WriteNumber};
use gupfs_proto::{FsError, MapEpoch, OstId, SessionId, cluster};
use gupfs_rpc::{DialOss, Peer, Service};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// An object server of another process: a connection to it breaks after it has executed a request, and the client sends the same request
/// again.
struct RemoteOss {
    oss: Arc<Oss>,
    /// It does not know numbered writes: then a connection to it fails them.
    is_former: bool,
    /// The next write loses its reply.
    loses_reply: Mutex<bool>,
    executed: Notify,
    reconnects: Notify,
    /// The numbers of the writes that arrived; None for plain ones.
    arrived: Mutex<Vec<Option<WriteNumber>>>,
}

impl RemoteOss {
    fn new(servers: &Servers, is_former: bool) -> Arc<RemoteOss> {
        Arc::new(RemoteOss {
            oss: servers.oss.clone(),
            is_former,
            loses_reply: Mutex::new(false),
            executed: Notify::new(),
            reconnects: Notify::new(),
            arrived: Mutex::default(),
        })
    }
}

impl Service<DataRequest, DataReply> for RemoteOss {
    async fn handle(self: Arc<Self>, request: DataRequest) -> DataReply {
        let number = match &request.op {
            DataOp::Write { .. } => None,
            DataOp::NumberedWrite { .. } if self.is_former => return Err(FsError::NotSupported),
            DataOp::NumberedWrite { number, .. } => Some(*number),
            _ => return self.oss.clone().handle(request).await,
        };
        self.arrived.lock().push(number);
        if std::mem::take(&mut *self.loses_reply.lock()) {
            self.oss.clone().handle(request.clone()).await.unwrap();
            self.executed.notify_one();
            self.reconnects.notified().await;
        }
        self.oss.clone().handle(request).await
    }
}

/// No other servers: all targets are known from the start.
struct NoOtherServers;

impl DialOss for NoOtherServers {
    fn dial(&self, address: &str) -> OstPeer {
        panic!("no server has the address '{address}'")
    }
}

impl Service<cluster::ClusterRequest, cluster::ClusterReply> for NoOtherServers {
    async fn handle(self: Arc<Self>, _: cluster::ClusterRequest) -> cluster::ClusterReply {
        let local = |ost| cluster::TargetAddress {
            ost: OstId(ost),
            address: Some(String::new()),
        };
        Ok(cluster::ClusterReplyBody::Map(cluster::ClusterMap {
            epoch: MapEpoch(1_000),
            targets: (0..TARGETS).map(local).collect(),
        }))
    }
}

/// Connects a client of another host.
async fn remote_client(cluster: &SharedCluster, oss: &Arc<RemoteOss>) -> User {
    let servers = &cluster.servers;
    let targets = servers.oss.osts().into_iter();
    let platform = servers.platform.clone();
    let route = Route::with_map(
        Peer::local(servers.mds.clone()),
        targets
            .map(|ost: OstId| (ost, Peer::local(oss.clone())))
            .collect(),
        Peer::local(Arc::new(NoOtherServers)),
        Arc::new(NoOtherServers),
        platform.platform().clock,
    );
    let options = SessionOptions {
        shared: true,
        ..SessionOptions::default()
    };
    let client = Client::connect_with_route(route, platform.platform(), options);
    let client = client.await.unwrap();
    let user = User { platform, client };
    cluster.attach(&user);
    user
}

/// A file that this remote client and the cluster's first one write, each with a concurrent lease.
async fn written_by_both(cluster: &SharedCluster, remote: &User) -> [Arc<OpenFile>; 2] {
    let near = &cluster.users[0];
    let file = near.create("shared").await;
    let files = [remote.open(file.ino()).await, file];
    for round in 0..4 {
        let user = [near, remote][round % 2];
        user.write(&files[(round + 1) % 2], 0, &[9; 20_000]).await;
    }
    let leases = [remote, near].map(|user| user.client.status().concurrently_leased_inodes);
    assert_eq!(leases, [1, 1]);
    files
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_sent_again_does_not_overwrite_a_later_one() {
    let cluster = SharedCluster::new(1, 1).await;
    let oss = RemoteOss::new(&cluster.servers, false);
    let (remote, near) = (remote_client(&cluster, &oss).await, &cluster.users[0]);
    let [remote_file, near_file] = written_by_both(&cluster, &remote).await;
    *oss.loses_reply.lock() = true;
    let first = {
        let (remote, file) = (remote.clone(), remote_file.clone());
        tokio::spawn(async move { remote.write(&file, 100, &[1; 5_000]).await })
    };
    oss.executed.notified().await;
    // The other client sees the bytes and writes others, before the connection is there again.
    assert_eq!(near.read(&near_file, 100, 5_000).await, [1; 5_000]);
    near.write(&near_file, 100, &[2; 5_000]).await;
    oss.reconnects.notify_one();
    first.await.unwrap();
    for (user, file) in [(near, &near_file), (&remote, &remote_file)] {
        assert_eq!(user.read(file, 100, 5_000).await, [2; 5_000]);
    }
    // The next write of the slot takes effect.
    remote.write(&remote_file, 100, &[3; 5_000]).await;
    assert_eq!(near.read(&near_file, 100, 5_000).await, [3; 5_000]);
}

#[tokio::test(start_paused = true)]
async fn only_writes_beside_other_writers_are_numbered() {
    let cluster = SharedCluster::new(2, 1).await;
    let oss = RemoteOss::new(&cluster.servers, false);
    let remote = remote_client(&cluster, &oss).await;
    let alone = remote.create("alone").await;
    remote.write(&alone, 0, &[1; 20_000]).await;
    assert_eq!(*oss.arrived.lock(), [None]);
    let [file, _] = written_by_both(&cluster, &remote).await;
    oss.arrived.lock().clear();
    remote.write(&file, 0, &[1; 5_000]).await;
    // Into two objects, and then one after the other: few slots are used.
    remote.write(&file, (256 << 10) - 100, &[1; 5_000]).await;
    remote.write(&file, 0, &[1; 5_000]).await;
    let arrived: Vec<_> = oss.arrived.lock().iter().flatten().copied().collect();
    assert_eq!(arrived.len(), 4);
    assert!(arrived.iter().all(|number| number.slot == 0), "{arrived:?}");
}

#[tokio::test(start_paused = true)]
async fn an_object_server_of_a_former_version_gets_plain_writes() {
    let cluster = SharedCluster::new(3, 1).await;
    let oss = RemoteOss::new(&cluster.servers, true);
    let (remote, near) = (remote_client(&cluster, &oss).await, &cluster.users[0]);
    let [remote_file, near_file] = written_by_both(&cluster, &remote).await;
    remote.write(&remote_file, 7, &[1; 5_000]).await;
    assert_eq!(near.read(&near_file, 7, 5_000).await, [1; 5_000]);
    assert!(oss.arrived.lock().iter().all(Option::is_none));
}

#[tokio::test(start_paused = true)]
async fn a_fence_frees_what_the_targets_remember_of_the_session() {
    let cluster = SharedCluster::new(4, 1).await;
    let oss = RemoteOss::new(&cluster.servers, false);
    let remote = remote_client(&cluster, &oss).await;
    written_by_both(&cluster, &remote).await;
    let slots = async || {
        let status = cluster.servers.oss.status().await;
        status.targets.iter().map(|target| target.write_slots).sum()
    };
    let before: usize = slots().await;
    assert!(before > 0);
    let request = |session| DataRequest {
        session: SessionId(0),
        map_epoch: MapEpoch(1),
        job: gupfs_proto::JobId(0),
        ost: OstId(0),
        credentials: DataCredentials::None,
        op: DataOp::Fence { session },
    };
    for (session, after) in [
        (cluster.users[0].client.session(), before),
        (remote.client.session(), 0),
    ] {
        let fenced = cluster.servers.oss.clone().handle(request(session)).await;
        fenced.unwrap();
        assert_eq!(slots().await, after);
    }
}
