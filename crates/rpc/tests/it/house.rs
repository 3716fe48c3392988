//! A server that counts, and lines to it.

use gupfs_platform::fake::{FakeNet, FakeWorld};
use gupfs_platform::{Net, Platform};
use gupfs_proto::meta::{self, Op};
use gupfs_proto::recall;
use gupfs_proto::{Caller, ClusterId, MapEpoch, OwnerEpoch, Seq, SessionId};
use gupfs_rpc::*;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

pub const CLUSTER: ClusterId = ClusterId(7);
pub const AT: &str = "mds:1";
pub const MOST_CLIENTS: usize = 64;

pub fn net() -> FakeNet {
    FakeNet::new(3, (Duration::from_micros(50), Duration::from_micros(300)))
}

pub fn platform(seed: u64) -> Platform {
    FakeWorld::new(seed).platform()
}

pub fn me(who: u128, role: Role) -> Myself {
    Myself {
        who,
        role,
        name: format!("host{who}"),
    }
}

pub fn key(byte: u8) -> Option<ClusterKey> {
    Some(ClusterKey::new([byte; 32]))
}

/// Answers each request with how many it has had; `Sync { upto }` waits so many milliseconds before.
pub struct Counting {
    pub platform: Platform,
    /// (session, sequence) as they took effect.
    pub had: Mutex<Vec<u64>>,
    pub callers: Mutex<Vec<Arc<gupfs_rpc::Caller>>>,
}

impl Counting {
    pub fn new(platform: Platform) -> Arc<Counting> {
        Arc::new(Counting {
            platform,
            had: Mutex::default(),
            callers: Mutex::default(),
        })
    }
}

impl Host<meta::Request, meta::Reply> for Counting {
    async fn answer(
        self: Arc<Self>,
        from: Arc<gupfs_rpc::Caller>,
        question: meta::Request,
    ) -> meta::Reply {
        self.callers.lock().push(from);
        if let Op::Sync { upto } = question.op {
            self.platform
                .clock
                .sleep(Duration::from_millis(upto.0))
                .await;
        }
        let mut had = self.had.lock();
        had.push(question.job);
        meta::Reply {
            seq: Seq(had.len() as u64),
            durable: Seq(0),
            map_epoch: MapEpoch(1),
            change: None,
            result: Ok(meta::Answer::Done),
        }
    }
}

pub fn request(job: u64, wait_ms: u64) -> meta::Request {
    meta::Request {
        session: SessionId(1),
        lane: None,
        caller: Caller::root(),
        job,
        life: OwnerEpoch(1),
        seen: Seq(0),
        op: Op::Sync { upto: Seq(wait_ms) },
    }
}

pub async fn server(
    net: &Net,
    at: &str,
    counting: &Arc<Counting>,
    key: Option<ClusterKey>,
) -> Server {
    let listener = net.listen(at).await.unwrap();
    Server::start(
        listener,
        ServerOptions {
            platform: counting.platform.clone(),
            me: me(1, Role::Mds),
            cluster: CLUSTER,
            key,
            clients: Arc::new(EveryClientKey),
            tls: None,
            hosts: Hosts::none().with_host(counting.clone()),
            attend: Arc::new(Unattended),
            capacity: Capacity::of_clients(MOST_CLIENTS),
        },
    )
}

pub fn line_options(
    net: &Net,
    platform: &Platform,
    who: u128,
    key: Option<ClusterKey>,
) -> LineOptions {
    LineOptions {
        to: AT.into(),
        whom: "the metadata server".into(),
        net: net.clone(),
        platform: platform.clone(),
        me: me(who, Role::Client),
        cluster: Some(CLUSTER),
        key: key.map(Key::from),
        tls: None,
        patience: None,
        fence: false,
        hosts: Hosts::none(),
    }
}

pub type Mds = Peer<meta::Request, meta::Reply>;

/// Says what it is asked to give back.
pub struct Holder(pub Mutex<Vec<u64>>);

impl Service<recall::Request, recall::Reply> for Holder {
    async fn answer(self: Arc<Self>, question: recall::Request) -> recall::Reply {
        if let recall::Request::GiveBack { ino } = question {
            self.0.lock().push(ino.0);
        }
        Ok(recall::Answer::Done)
    }
}
