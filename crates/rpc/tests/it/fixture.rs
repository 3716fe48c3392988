//! Test fixture: a server that counts requests, and connections to it.

use gupfs_platform::fake::{FakeNet, FakePlatform};
use gupfs_platform::{Net, Platform};
use gupfs_proto::callback;
use gupfs_proto::meta::{self, MetaOp};
use gupfs_proto::{Caller, ClusterId, MapEpoch, OwnerEpoch, Seq, SessionId};
use gupfs_rpc::*;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

pub const CLUSTER: ClusterId = ClusterId(7);
pub const ADDRESS: &str = "mds:1";
pub const CLIENTS_MAX: usize = 64;

pub fn net() -> FakeNet {
    FakeNet::new(3, (Duration::from_micros(50), Duration::from_micros(300)))
}

pub fn platform(seed: u64) -> Platform {
    FakePlatform::new(seed).platform()
}

pub fn identity(process_id: u128, role: Role) -> LocalIdentity {
    LocalIdentity {
        process_id,
        role,
        name: format!("host{process_id}"),
    }
}

pub fn key(byte: u8) -> Option<ClusterKey> {
    Some(ClusterKey::new([byte; 32]))
}

/// Replies to each request with the number of requests so far; `Sync { upto }` waits that many milliseconds before.
pub struct CountingServer {
    pub platform: Platform,
    /// The job ids of the requests, in the order of their effect.
    pub handled: Mutex<Vec<u64>>,
    pub peers: Mutex<Vec<Arc<gupfs_rpc::ConnectedPeer>>>,
}

impl CountingServer {
    pub fn new(platform: Platform) -> Arc<CountingServer> {
        Arc::new(CountingServer {
            platform,
            handled: Mutex::default(),
            peers: Mutex::default(),
        })
    }
}

impl PeerHandler<meta::MetaRequest, meta::MetaReply> for CountingServer {
    async fn handle(
        self: Arc<Self>,
        from: Arc<gupfs_rpc::ConnectedPeer>,
        request: meta::MetaRequest,
    ) -> meta::MetaReply {
        self.peers.lock().push(from);
        if let MetaOp::Sync { upto } = request.op {
            self.platform
                .clock
                .sleep(Duration::from_millis(upto.0))
                .await;
        }
        let mut handled = self.handled.lock();
        handled.push(request.job.0);
        meta::MetaReply {
            seq: Seq(handled.len() as u64),
            durable: Seq(0),
            map_epoch: MapEpoch(1),
            change: None,
            result: Ok(meta::MetaReplyBody::Done),
        }
    }
}

pub fn request(job: u64, wait_ms: u64) -> meta::MetaRequest {
    meta::MetaRequest {
        session: SessionId(1),
        slot_seq: None,
        caller: Caller::root(),
        job: gupfs_proto::JobId(job),
        instance: OwnerEpoch(1),
        last_seen: Seq(0),
        op: MetaOp::Sync { upto: Seq(wait_ms) },
    }
}

pub async fn server(
    net: &Net,
    at: &str,
    counting: &Arc<CountingServer>,
    key: Option<ClusterKey>,
) -> RpcServer {
    let listener = net.listen(at).await.unwrap();
    RpcServer::start(listener, server_options(counting, key))
}

pub fn server_options(counting: &Arc<CountingServer>, key: Option<ClusterKey>) -> RpcServerOptions {
    RpcServerOptions {
        platform: counting.platform.clone(),
        identity: identity(1, Role::Mds),
        cluster: CLUSTER,
        key,
        client_keys: Arc::new(AcceptAllClientKeys),
        tls: None,
        handlers: Handlers::none().with_peer_handler(counting.clone()),
        observer: Arc::new(NoObserver),
        capacity: Capacity::for_clients(CLIENTS_MAX),
        admission: Arc::new(AdmitAll),
        send_deadline: SendDeadline::none(),
    }
}

pub fn connection_options(
    net: &Net,
    platform: &Platform,
    process_id: u128,
    key: Option<ClusterKey>,
) -> ClientConnectionOptions {
    ClientConnectionOptions {
        addresses: ServerAddresses::one(ADDRESS),
        peer_name: "the metadata server".into(),
        net: net.clone(),
        platform: platform.clone(),
        identity: identity(process_id, Role::Client),
        cluster: Some(CLUSTER),
        key: key.map(AuthKey::from),
        tls: None,
        request_timeout: None,
        fence: false,
        handlers: Handlers::none(),
        send_deadline: SendDeadline::none(),
    }
}

pub type MdsPeer = Peer<meta::MetaRequest, meta::MetaReply>;

/// A lease holder that records which write leases the server revokes.
pub struct LeaseHolder(pub Mutex<Vec<u64>>);

impl Service<callback::CallbackRequest, callback::CallbackReply> for LeaseHolder {
    async fn handle(
        self: Arc<Self>,
        request: callback::CallbackRequest,
    ) -> callback::CallbackReply {
        if let callback::CallbackRequest::Revoke { ino } = request {
            self.0.lock().push(ino.0);
        }
        Ok(callback::CallbackReplyBody::Done)
    }
}
