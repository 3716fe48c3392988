//! Lives of targets that are over are remembered here, since the target's own disk may not take the note.

use crate::house::{Simulated, simulate};
use gupfs_mds::Mds;
use gupfs_proto::cluster::{Answer, Reply, Request, TargetLife};
use gupfs_proto::{Incarnation, OstId, OstLife};
use gupfs_rpc::Service;
use std::sync::Arc;

async fn tell(mds: &Arc<Mds>, incarnation: u64, life: u64, over: bool) -> Option<OstLife> {
    let target = TargetLife {
        ost: OstId(0),
        incarnation: Incarnation(incarnation),
        life: OstLife(life),
        over,
    };
    let question = Request::Lives {
        targets: vec![target],
    };
    let reply: Reply = mds.clone().answer(question).await;
    let Ok(Answer::Lives { over }) = reply else {
        panic!("{reply:?}");
    };
    over.first().map(|(ost, upto)| {
        assert_eq!(*ost, OstId(0));
        *upto
    })
}

#[test]
fn the_end_of_a_life_is_remembered_through_a_power_cut() {
    simulate(async {
        let house = Simulated::new(7);
        let life = house.start().await;
        assert_eq!(tell(&life.mds, 5, 3, false).await, None);
        assert_eq!(tell(&life.mds, 5, 3, true).await, Some(OstLife(3)));
        drop(life.mds);
        house.cut_power(&life.platform).await;

        let life = house.start().await;
        // It lost its own note, and says that its life goes on.
        assert_eq!(tell(&life.mds, 5, 3, false).await, Some(OstLife(3)));
        assert_eq!(tell(&life.mds, 5, 4, false).await, Some(OstLife(3)));
        // An old word takes nothing back.
        assert_eq!(tell(&life.mds, 5, 2, true).await, Some(OstLife(3)));
        assert_eq!(tell(&life.mds, 5, 6, true).await, Some(OstLife(6)));
        // A target that was initialised anew counts from the beginning.
        assert_eq!(tell(&life.mds, 9, 1, false).await, None);
        assert_eq!(tell(&life.mds, 9, 1, true).await, Some(OstLife(1)));
        life.mds.stop().await.unwrap();
    });
}
