//! A target that is away for longer than what was shown to it counts.

use crate::fake::mds::FakeMds;
use crate::fake::ost::FakeOst;
use crate::fake::{Shape, TARGETS};
use crate::user::User;
use gupfs_client::{Client, Dial, Options, Ost, Route};
use gupfs_platform::BootTime;
use gupfs_platform::fake::{FakeClock, FakeWorld};
use gupfs_proto::capability::Fault;
use gupfs_proto::meta::{self, Answer, Op};
use gupfs_proto::{MapEpoch, OstId, Refusal, cluster, data};
use gupfs_rpc::{Peer, Service};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Gives what it is asked for, and writes down that it was.
struct Giving {
    mds: Arc<FakeMds>,
    permits: Mutex<u32>,
}

impl Service<meta::Request, meta::Reply> for Giving {
    async fn answer(self: Arc<Self>, mut request: meta::Request) -> meta::Reply {
        if !matches!(request.op, Op::Permit { .. }) {
            return self.mds.clone().answer(request).await;
        }
        *self.permits.lock() += 1;
        request.op = Op::Renew;
        let mut reply = self.mds.clone().answer(request).await;
        reply.result = Ok(Answer::Permitted {
            pass: None,
            capability: None,
        });
        reply
    }
}

/// Answers nothing until it is back, and does not believe then what was shown before.
struct Away {
    ost: Arc<FakeOst>,
    clock: FakeClock,
    back: BootTime,
}

impl Service<data::Request, data::Reply> for Away {
    async fn answer(self: Arc<Self>, request: data::Request) -> data::Reply {
        let asked = self.clock.boot();
        if asked < self.back {
            self.clock.sleep_until(self.back).await;
            return Err(Refusal::Capability(Fault::Expired));
        }
        self.ost.clone().answer(request).await
    }
}

/// All targets are known from the beginning.
struct Nobody;

impl Dial for Nobody {
    fn dial(&self, address: &str) -> Ost {
        panic!("nobody is at '{address}'")
    }
}

impl Service<cluster::Request, cluster::Reply> for Nobody {
    async fn answer(self: Arc<Self>, question: cluster::Request) -> cluster::Reply {
        assert_eq!(question, cluster::Request::Map);
        Ok(cluster::Answer::Map(cluster::Map {
            epoch: MapEpoch(1),
            targets: Vec::new(),
        }))
    }
}

#[tokio::test(start_paused = true)]
async fn what_expired_while_a_target_was_away_is_got_anew_however_long_that_was() {
    let platform = FakeWorld::new(1);
    let (clock, dice) = (platform.clock.clone(), &platform.dice);
    let ost = FakeOst::new(clock.clone(), dice.fork());
    let mds = FakeMds::new(clock.clone(), dice.fork(), ost.clone(), Shape::Small);
    let giving = Arc::new(Giving {
        mds,
        permits: Mutex::new(0),
    });
    let away = Arc::new(Away {
        ost,
        clock: clock.clone(),
        back: clock.boot() + Duration::from_secs(300),
    });
    let near = (0..TARGETS).map(|id| (OstId(id), Peer::local(away.clone())));
    let route = Route::found(
        Peer::local(giving.clone()),
        near.collect(),
        Peer::local(Arc::new(Nobody)),
        Arc::new(Nobody),
        platform.platform().clock,
    );
    let client = Client::begin(route, platform.platform(), Options::default());
    let client = client.await.unwrap();
    let user = User { platform, client };
    let file = user.create("file").await;
    user.write(&file, 0, &[1; 100_000]).await;
    assert_eq!(user.read(&file, 0, 100_000).await, [1; 100_000]);
    assert!(*giving.permits.lock() > 0);
}
