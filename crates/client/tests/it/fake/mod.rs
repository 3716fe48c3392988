//! Servers in memory. They keep the rules of the real ones, and panic when a client breaks its part of them.

pub mod mds;
pub mod ost;

use crate::user::User;
use gupfs_client::{Client, Options};
use gupfs_platform::Platform;
use gupfs_platform::fake::{FakeDice, FakeWorld};
use gupfs_proto::OstId;
use gupfs_rpc::Peer;
use mds::FakeMds;
use ost::FakeOst;
use std::ops::Deref;
use std::sync::Arc;

/// Servers and one client of them.
pub struct Site {
    pub user: User,
    pub mds: Arc<FakeMds>,
    pub ost: Arc<FakeOst>,
}

/// Layouts with all borders close together, so that small tests meet them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// The default: 1 MiB units, one object for the first 4 MiB.
    Default,
    /// 64 KiB units, one object for the first 256 KiB.
    Small,
}

pub const TARGETS: u16 = 4;

impl Site {
    pub async fn new(seed: u64) -> Site {
        Site::shaped(seed, Shape::Small, Options::default()).await
    }

    pub async fn shaped(seed: u64, shape: Shape, options: Options) -> Site {
        let platform = FakeWorld::new(seed);
        let ost = FakeOst::new(platform.clock.clone(), platform.dice.fork());
        let mds = FakeMds::new(
            platform.clock.clone(),
            platform.dice.fork(),
            ost.clone(),
            shape,
        );
        let client = connect(&mds, &ost, platform.platform(), options).await;
        let user = User { platform, client };
        Site { user, mds, ost }
    }

    /// The process ends without a word, the servers go on; a new client finds what there is.
    pub async fn crash(&mut self) {
        self.platform.tasks.kill();
        self.mds.recover();
        self.user.client = connect(
            &self.mds,
            &self.ost,
            self.platform.platform(),
            Options::default(),
        )
        .await;
    }
}

impl Deref for Site {
    type Target = User;
    fn deref(&self) -> &User {
        &self.user
    }
}

async fn connect(
    mds: &Arc<FakeMds>,
    ost: &Arc<FakeOst>,
    platform: Platform,
    options: Options,
) -> Arc<Client> {
    let osts = (0..TARGETS).map(|id| (OstId(id), Peer::local(ost.clone())));
    Client::connect(Peer::local(mds.clone()), osts.collect(), platform, options)
        .await
        .unwrap()
}

/// Lets other tasks in, now and then: calls of a real system take time too.
pub async fn dawdle(dice: &FakeDice) {
    while dice.one_in(3) {
        tokio::task::yield_now().await;
    }
}
