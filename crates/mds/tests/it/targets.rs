//! Targets that are not who they were are refused, those that are full or down get no new files.

use crate::client::Client;
use crate::cuts::{Elsewhere, word};
use crate::house::{CLUSTER, Simulated, simulate};
use gupfs_mds::Mds;
use gupfs_mds::targets::{Target, TargetStatus};
use gupfs_proto::cluster::{self, Answer, Report, TargetIdentity};
use gupfs_proto::data::Space;
use gupfs_proto::{ClusterId, Incarnation, InodeId, OstId, Refusal};
use gupfs_rpc::Service;
use std::sync::Arc;
use std::time::Duration;

async fn target(mds: &Arc<Mds>, ost: u16) -> TargetStatus {
    let targets = mds.status().await.targets;
    targets
        .into_iter()
        .find(|target| target.ost == OstId(ost))
        .unwrap()
}

/// One life that is stopped in order, so that each target is remembered.
async fn remembered(seed: u64) -> Simulated {
    let house = Simulated::new(seed);
    let life = house.start().await;
    assert!(target(&life.mds, 1).await.usable);
    life.mds.stop().await.unwrap();
    house.kill(&life.platform).await;
    house
}

#[test]
fn a_target_restored_from_an_older_copy_is_refused_until_its_loss_is_accepted() {
    simulate(async {
        let house = remembered(1).await;
        let copy = house.osts[1].info();
        for _ in 0..2 {
            let life = house.start().await;
            life.mds.stop().await.unwrap();
            house.kill(&life.platform).await;
        }
        house.osts[1].set_info(copy);

        let life = house.start().await;
        let state = target(&life.mds, 1).await;
        assert!(state.refused && !state.usable);
        assert!(state.why_not.unwrap().contains("older copy"));
        assert_eq!(life.mds.refused_targets().len(), 1);
        // Files go to the other one, and nobody asks this one.
        let client = Client::open(&life.mds).await;
        house.osts[1].asked();
        for i in 0..10 {
            let ino = client
                .create(0, InodeId::ROOT, &format!("f{i}"))
                .await
                .unwrap();
            let opened = client.begin_write(ino).await;
            assert!(
                opened
                    .layout
                    .objects(ino)
                    .all(|(_, _, ost, ..)| ost == OstId(0))
            );
        }
        life.mds.stop().await.unwrap();
        house.kill(&life.platform).await;
        assert_eq!(house.osts[1].asked(), [""; 0]);

        let platform = house.platform();
        let mut how = house.how(&platform);
        how.accept_loss = true;
        let mds = house.start_as(how).await.unwrap();
        assert!(target(&mds, 1).await.usable);
        mds.stop().await.unwrap();
        house.kill(&platform).await;
        // It is known as it is now.
        let life = house.start().await;
        assert!(target(&life.mds, 1).await.usable);
        life.mds.stop().await.unwrap();
    });
}

#[test]
fn a_target_initialised_anew_is_refused() {
    simulate(async {
        let house = remembered(2).await;
        house.osts[0].set_info(TargetIdentity {
            incarnation: Incarnation(0xbad),
            ..house.osts[0].info()
        });
        let life = house.start().await;
        let state = target(&life.mds, 0).await;
        assert!(state.refused);
        assert!(state.why_not.unwrap().contains("initialised anew"));
    });
}

#[test]
fn another_clusters_target_is_refused() {
    simulate(async {
        let house = Simulated::new(3);
        assert_ne!(CLUSTER, ClusterId(7));
        house.osts[0].set_info(TargetIdentity {
            cluster: ClusterId(7),
            ..house.osts[0].info()
        });
        let life = house.start().await;
        assert!(target(&life.mds, 0).await.refused);
    });
}

#[test]
fn a_stamp_heard_while_serving_is_remembered() {
    simulate(async {
        let house = remembered(4).await;
        let life = house.start().await;
        let opened = house.osts[0].info();
        house.osts[0].set_info(TargetIdentity {
            stamp: opened.stamp + 50,
            ..opened
        });
        let admin = || Ok(house.osts[0].admin());
        life.mds.hear(OstId(0), admin()).await.unwrap();
        // A stamp that goes back is none of the same target.
        house.osts[0].set_info(opened);
        let back = life.mds.hear(OstId(0), admin()).await;
        assert!(matches!(back, Err(Refusal::TargetDown { .. })), "{back:?}");
        life.mds.stop().await.unwrap();
        house.kill(&life.platform).await;
        // The directory is as it was when it was opened: fifty stamps are missing.
        let life = house.start().await;
        assert!(target(&life.mds, 0).await.refused);
    });
}

#[test]
fn a_target_that_comes_late_is_used_from_then_on() {
    simulate(async {
        let house = Simulated::new(5);
        let platform = house.platform();
        let mut how = house.how(&platform);
        let admin = how.targets[1].admin.clone();
        how.targets[1].admin = Err("its disk is not mounted".into());
        let mds = house.start_as(how).await.unwrap();
        let state = target(&mds, 1).await;
        assert_eq!(state.why_not.as_deref(), Some("its disk is not mounted"));
        mds.hear(OstId(1), admin).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(target(&mds, 1).await.usable);
        let heard = mds.hear(OstId(9), Err("who?".into())).await;
        assert!(matches!(heard, Err(Refusal::TargetDown { .. })));
    });
}

#[test]
fn a_target_that_is_not_part_of_this_start_is_shown_as_absent() {
    simulate(async {
        let house = remembered(6).await;
        let platform = house.platform();
        let mut how = house.how(&platform);
        how.targets.truncate(1);
        let mds = house.start_as(how).await.unwrap();
        let state = target(&mds, 1).await;
        assert!(!state.usable && !state.refused);
        assert_eq!(
            state.why_not.as_deref(),
            Some("it is not part of this start")
        );
    });
}

#[test]
fn a_full_or_silent_target_gets_no_new_file_and_is_used_again_later() {
    simulate(async {
        let house = Simulated::new(7);
        let life = house.start().await;
        house.osts[0].set_available(0);
        house.osts[1].set_down(true);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(
            target(&life.mds, 0).await.why_not.as_deref(),
            Some("it is full")
        );
        assert!(
            target(&life.mds, 1)
                .await
                .why_not
                .unwrap()
                .contains("took it away")
        );
        let client = Client::open(&life.mds).await;
        let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
        let op = gupfs_proto::meta::Op::BeginWrite {
            ino,
            kill_privileges: false,
        };
        assert_eq!(client.change(0, op).await, Err(Refusal::NoSpace));
        house.osts[0].set_available(1 << 30);
        tokio::time::sleep(Duration::from_secs(3)).await;
        let opened = client.begin_write(ino).await;
        assert!(
            opened
                .layout
                .objects(ino)
                .all(|(_, _, ost, ..)| ost == OstId(0))
        );
        life.mds.stop().await.unwrap();
    });
}

/// A metadata server whose targets are elsewhere and new; they have written down their opening, and have not said so yet.
async fn with_targets_elsewhere(house: &Simulated) -> (Arc<Mds>, Vec<Target>) {
    for ost in &house.osts {
        ost.set_info(TargetIdentity {
            stamp: 0,
            run: 0,
            ..ost.info()
        });
    }
    let mut how = house.how(&house.platform());
    let targets = std::mem::take(&mut how.targets);
    how.dial = Some(Arc::new(Elsewhere(targets.clone())));
    let mds = house.start_as(how).await.unwrap();
    for ost in &house.osts {
        let incarnation = ost.info().incarnation;
        let question = cluster::Request::Admit { incarnation };
        let admitted: cluster::Reply = mds.clone().answer(question).await;
        admitted.unwrap();
    }
    let Answer::Reported { owner, .. } = report(&mds, &targets, None).await else {
        unreachable!("a report is answered so")
    };
    for target in &targets {
        target.admin.clone().unwrap().adopt(owner).await.unwrap();
    }
    (mds, targets)
}

async fn report(mds: &Arc<Mds>, targets: &[Target], space: Option<Space>) -> Answer {
    let report = Report {
        address: "elsewhere".into(),
        targets: targets.iter().map(|target| word(target, space)).collect(),
        leaves: false,
    };
    let reply: cluster::Reply = mds.clone().answer(cluster::Request::Report(report)).await;
    reply.unwrap()
}

const ROOM: Option<Space> = Some(Space {
    volume: 0,
    total: 1 << 40,
    free: 1 << 39,
    available: 1 << 39,
    objects: 0,
});

#[test]
fn until_a_target_is_known_to_have_room_a_new_file_waits() {
    simulate(async {
        let house = Simulated::new(8);
        let (mds, targets) = with_targets_elsewhere(&house).await;
        let client = Client::open(&mds).await;
        let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
        let placed = tokio::spawn(async move { client.begin_write(ino).await });
        // Their servers are there, and their disks do not answer.
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            report(&mds, &targets, None).await;
        }
        assert!(!target(&mds, 0).await.usable && !placed.is_finished());
        report(&mds, &targets, ROOM).await;
        placed.await.unwrap();
        mds.stop().await.unwrap();
    });
}

/// Whenever it comes: also while what the first report brings is not durable yet.
#[test]
fn a_new_file_that_comes_with_the_first_report_is_placed() {
    for polls in 0..100 {
        simulate(async {
            let house = Simulated::new(9);
            let (mds, targets) = with_targets_elsewhere(&house).await;
            let client = Client::open(&mds).await;
            let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
            let comes = async {
                for _ in 0..polls {
                    tokio::task::yield_now().await;
                }
                client.begin_write(ino).await
            };
            tokio::join!(report(&mds, &targets, ROOM), comes);
            mds.stop().await.unwrap();
        });
    }
}
