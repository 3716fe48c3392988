//! A target that is down for longer than the client's credentials are valid.

use crate::fake::mds::FakeMds;
use crate::fake::ost::FakeOst;
use crate::fake::{LayoutShape, TARGETS};
use crate::user::User;
use gupfs_client::{Client, OstPeer, ReadOptions, Route, SessionOptions};
use gupfs_platform::BootTime;
use gupfs_platform::fake::{FakeClock, FakePlatform};
use gupfs_proto::capability::CapabilityFault;
use gupfs_proto::meta::{self, MetaOp, MetaReplyBody};
use gupfs_proto::{FsError, MapEpoch, OstId, cluster, data};
use gupfs_rpc::{DialOss, Peer, Service};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// A metadata server that issues every requested capability, and counts them.
struct CountingMds {
    mds: Arc<FakeMds>,
    issued: Mutex<u32>,
}

impl Service<meta::MetaRequest, meta::MetaReply> for CountingMds {
    async fn handle(self: Arc<Self>, mut request: meta::MetaRequest) -> meta::MetaReply {
        if !matches!(request.op, MetaOp::IssueCapability { .. }) {
            return self.mds.clone().handle(request).await;
        }
        *self.issued.lock() += 1;
        request.op = MetaOp::Renew;
        let mut reply = self.mds.clone().handle(request).await;
        reply.result = Ok(MetaReplyBody::CapabilityIssued {
            session_capability: None,
            capability: None,
        });
        reply
    }
}

/// An OST whose server does not hear of new keys: all credentials look expired.
struct CutOffOst {
    ost: Arc<FakeOst>,
    is_cut_off: AtomicBool,
}

impl Service<data::DataRequest, data::DataReply> for CutOffOst {
    async fn handle(self: Arc<Self>, request: data::DataRequest) -> data::DataReply {
        match self.is_cut_off.load(SeqCst) {
            true => Err(FsError::Capability(CapabilityFault::Expired)),
            false => self.ost.clone().handle(request).await,
        }
    }
}

/// An OST that answers nothing until it is back, and then refuses credentials presented before as expired.
struct UnreachableOst {
    ost: Arc<FakeOst>,
    clock: FakeClock,
    back: BootTime,
}

impl Service<data::DataRequest, data::DataReply> for UnreachableOst {
    async fn handle(self: Arc<Self>, request: data::DataRequest) -> data::DataReply {
        let asked = self.clock.boot();
        if asked < self.back {
            self.clock.sleep_until(self.back).await;
            return Err(FsError::Capability(CapabilityFault::Expired));
        }
        self.ost.clone().handle(request).await
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
    async fn handle(self: Arc<Self>, question: cluster::ClusterRequest) -> cluster::ClusterReply {
        assert_eq!(question, cluster::ClusterRequest::Map);
        let local = |ost| cluster::TargetAddress {
            ost: OstId(ost),
            address: Some(String::new()),
        };
        Ok(cluster::ClusterReplyBody::Map(cluster::ClusterMap {
            epoch: MapEpoch(1),
            targets: (0..TARGETS).map(local).collect(),
        }))
    }
}

/// A client of this metadata server; all its targets are `target`.
async fn connect(
    platform: FakePlatform,
    mds: &Arc<CountingMds>,
    target: impl Fn() -> OstPeer,
) -> User {
    let local_targets = (0..TARGETS).map(|id| (OstId(id), target()));
    let route = Route::with_map(
        Peer::local(mds.clone()),
        local_targets.collect(),
        Peer::local(Arc::new(NoOtherServers)),
        Arc::new(NoOtherServers),
        platform.platform().clock,
    );
    let client = Client::connect_with_route(route, platform.platform(), SessionOptions::default());
    let client = client.await.unwrap();
    User { platform, client }
}

/// A metadata server and its cluster map, from which the targets disappear at some moment: they are declared lost.
struct LosingMds {
    mds: Arc<CountingMds>,
    are_lost: AtomicBool,
}

impl LosingMds {
    fn epoch(&self) -> MapEpoch {
        MapEpoch(1 + u64::from(self.are_lost.load(SeqCst)))
    }
}

impl Service<meta::MetaRequest, meta::MetaReply> for LosingMds {
    async fn handle(self: Arc<Self>, request: meta::MetaRequest) -> meta::MetaReply {
        let mut reply = self.mds.clone().handle(request).await;
        reply.map_epoch = self.epoch();
        reply
    }
}

impl Service<cluster::ClusterRequest, cluster::ClusterReply> for LosingMds {
    async fn handle(self: Arc<Self>, _: cluster::ClusterRequest) -> cluster::ClusterReply {
        let place = |ost| cluster::TargetAddress {
            ost: OstId(ost),
            address: Some(String::new()),
        };
        let left = if self.are_lost.load(SeqCst) {
            0
        } else {
            TARGETS
        };
        Ok(cluster::ClusterReplyBody::Map(cluster::ClusterMap {
            epoch: self.epoch(),
            targets: (0..left).map(place).collect(),
        }))
    }
}

#[tokio::test(start_paused = true)]
async fn calls_to_a_target_that_has_left_the_map_fail_at_once() {
    let platform = FakePlatform::new(2);
    let (clock, dice) = (platform.clock.clone(), &platform.random);
    let ost = FakeOst::new(clock.clone(), dice.fork());
    let mds = FakeMds::new(clock.clone(), dice.fork(), ost.clone(), LayoutShape::Small);
    let losing_mds = Arc::new(LosingMds {
        mds: Arc::new(CountingMds {
            mds,
            issued: Mutex::new(0),
        }),
        are_lost: AtomicBool::new(false),
    });
    let silent_ost = Arc::new(UnreachableOst {
        ost,
        clock: clock.clone(),
        back: clock.boot() + Duration::from_secs(300),
    });
    let local_targets = (0..TARGETS).map(|id| (OstId(id), Peer::local(silent_ost.clone())));
    let route = Route::with_map(
        Peer::local(losing_mds.clone()),
        local_targets.collect(),
        Peer::local(losing_mds.clone()),
        Arc::new(NoOtherServers),
        platform.platform().clock,
    );
    let client = Client::connect_with_route(route, platform.platform(), SessionOptions::default());
    let client = client.await.unwrap();
    let user = User { platform, client };
    let file = user.create("file").await;
    losing_mds.are_lost.store(true, SeqCst);
    // Its reply tells of the newer map.
    user.create("other").await;
    let lost = clock.boot();
    let failed = user.try_write(&file, 0, 100_000).await;
    assert!(
        matches!(failed, Err(FsError::TargetDown { .. })),
        "{failed:?}"
    );
    assert!(clock.boot().since(lost) < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn credentials_that_expired_while_an_ost_was_down_are_fetched_again() {
    let platform = FakePlatform::new(1);
    let (clock, dice) = (platform.clock.clone(), &platform.random);
    let ost = FakeOst::new(clock.clone(), dice.fork());
    let mds = FakeMds::new(clock.clone(), dice.fork(), ost.clone(), LayoutShape::Small);
    let counting_mds = Arc::new(CountingMds {
        mds,
        issued: Mutex::new(0),
    });
    let unreachable_ost = Arc::new(UnreachableOst {
        ost,
        clock: clock.clone(),
        back: clock.boot() + Duration::from_secs(300),
    });
    let user = connect(platform, &counting_mds, || {
        Peer::local(unreachable_ost.clone())
    })
    .await;
    let file = user.create("file").await;
    user.write(&file, 0, &[1; 100_000]).await;
    assert_eq!(user.read(&file, 0, 100_000).await, [1; 100_000]);
    assert!(*counting_mds.issued.lock() > 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_to_an_ost_that_takes_no_credentials_times_out() {
    let platform = FakePlatform::new(3);
    let (clock, dice) = (platform.clock.clone(), &platform.random);
    let ost = FakeOst::new(clock.clone(), dice.fork());
    let mds = FakeMds::new(clock.clone(), dice.fork(), ost.clone(), LayoutShape::Small);
    let counting_mds = Arc::new(CountingMds {
        mds,
        issued: Mutex::new(0),
    });
    let cut_off_ost = Arc::new(CutOffOst {
        ost,
        is_cut_off: AtomicBool::new(false),
    });
    let user = connect(platform, &counting_mds, || Peer::local(cut_off_ost.clone())).await;
    let file = user.create("file").await;
    user.write(&file, 0, &[1; 100_000]).await;
    cut_off_ost.is_cut_off.store(true, SeqCst);
    let failed = (user.client)
        .read(&file, 0, 100_000, ReadOptions::default())
        .await;
    let Err(FsError::TimedOut(what)) = failed else {
        panic!("{failed:?}");
    };
    assert!(what.contains("cut off from the metadata server"), "{what}");
    cut_off_ost.is_cut_off.store(false, SeqCst);
    assert_eq!(user.read(&file, 0, 100_000).await, [1; 100_000]);
}
