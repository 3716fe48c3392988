//! In-memory servers. They follow the protocol of the real ones, and panic when a client violates it.

pub mod mds;
pub mod ost;

use crate::user::User;
use gupfs_client::{Client, SessionOptions};
use gupfs_platform::Platform;
use gupfs_platform::fake::{FakePlatform, FakeRandom};
use gupfs_proto::OstId;
use gupfs_rpc::Peer;
use mds::FakeMds;
use ost::FakeOst;
use std::ops::Deref;
use std::sync::Arc;

/// In-memory servers and one client.
pub struct FakeCluster {
    pub user: User,
    pub mds: Arc<FakeMds>,
    pub ost: Arc<FakeOst>,
}

/// Which default layout the fake metadata server uses; `Small` has its borders close together, so that small tests reach them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LayoutShape {
    /// The default: 1 MiB units, one object for the first 4 MiB.
    Default,
    /// 64 KiB units, one object for the first 256 KiB.
    Small,
}

pub const TARGETS: u16 = 4;

impl FakeCluster {
    pub async fn new(seed: u64) -> FakeCluster {
        FakeCluster::with_shape(seed, LayoutShape::Small, SessionOptions::default()).await
    }

    pub async fn with_shape(seed: u64, shape: LayoutShape, options: SessionOptions) -> FakeCluster {
        let platform = FakePlatform::new(seed);
        let ost = FakeOst::new(platform.clock.clone(), platform.random.fork());
        let mds = FakeMds::new(
            platform.clock.clone(),
            platform.random.fork(),
            ost.clone(),
            shape,
        );
        let client = connect(&mds, &ost, platform.platform(), options).await;
        let user = User { platform, client };
        FakeCluster { user, mds, ost }
    }

    /// The client process ends without closing its session, the servers continue; a new client connects.
    pub async fn crash(&mut self) {
        self.platform.tasks.kill();
        self.mds.recover();
        self.user.client = connect(
            &self.mds,
            &self.ost,
            self.platform.platform(),
            SessionOptions::default(),
        )
        .await;
    }
}

impl Deref for FakeCluster {
    type Target = User;
    fn deref(&self) -> &User {
        &self.user
    }
}

async fn connect(
    mds: &Arc<FakeMds>,
    ost: &Arc<FakeOst>,
    platform: Platform,
    options: SessionOptions,
) -> Arc<Client> {
    let osts = (0..TARGETS).map(|id| (OstId(id), Peer::local(ost.clone())));
    Client::connect(Peer::local(mds.clone()), osts.collect(), platform, options)
        .await
        .unwrap()
}

/// Yields to other tasks at random: calls of a real system take time too.
pub async fn yield_at_random(dice: &FakeRandom) {
    while dice.one_in(3) {
        tokio::task::yield_now().await;
    }
}
