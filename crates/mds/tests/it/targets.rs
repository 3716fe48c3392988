//! Targets whose identity does not match the recorded one are refused; targets that are full or down get no new files.

use crate::client::Client;
use crate::fixture::{CLUSTER, Simulated, simulate};
use crate::truncates::{RemoteOss, target_report};
use gupfs_mds::Mds;
use gupfs_mds::osts::{MdsTargetStatus, TargetHandle};
use gupfs_proto::cluster::{self, ClusterReplyBody, OssReport, TargetIdentity};
use gupfs_proto::data::TargetCapacity;
use gupfs_proto::{ClusterId, FsError, Incarnation, InodeId, OstId};
use gupfs_rpc::Service;
use std::sync::Arc;
use std::time::Duration;

pub async fn target(mds: &Arc<Mds>, ost: u16) -> MdsTargetStatus {
    let targets = mds.status().await.targets;
    targets
        .into_iter()
        .find(|target| target.ost == OstId(ost))
        .unwrap()
}

/// Runs one instance and stops it in order, so that each target is recorded.
async fn remembered(seed: u64) -> Simulated {
    let fixture = Simulated::new(seed);
    let instance = fixture.start().await;
    assert!(target(&instance.mds, 1).await.usable);
    instance.mds.stop().await.unwrap();
    fixture.kill(&instance.platform).await;
    fixture
}

#[test]
fn a_target_restored_from_an_older_copy_is_refused_until_its_loss_is_accepted() {
    simulate(async {
        let fixture = remembered(1).await;
        let copy = fixture.osts[1].info();
        for _ in 0..2 {
            let instance = fixture.start().await;
            instance.mds.stop().await.unwrap();
            fixture.kill(&instance.platform).await;
        }
        fixture.osts[1].set_info(copy);

        let instance = fixture.start().await;
        let state = target(&instance.mds, 1).await;
        assert!(state.refused && !state.usable);
        assert!(state.why_not.unwrap().contains("older copy"));
        assert_eq!(instance.mds.refused_targets().len(), 1);
        // Files go to the other target, and no request goes to this one.
        let client = Client::open(&instance.mds).await;
        fixture.osts[1].take_requests();
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
        instance.mds.stop().await.unwrap();
        fixture.kill(&instance.platform).await;
        assert_eq!(fixture.osts[1].take_requests(), [""; 0]);

        let platform = fixture.platform();
        let mut options = fixture.start_options(&platform);
        options.accept_loss = true;
        let mds = fixture.start_as(options).await.unwrap();
        assert!(target(&mds, 1).await.usable);
        mds.stop().await.unwrap();
        fixture.kill(&platform).await;
        // It is recorded as it is now.
        let instance = fixture.start().await;
        assert!(target(&instance.mds, 1).await.usable);
        instance.mds.stop().await.unwrap();
    });
}

#[test]
fn a_target_initialised_anew_is_refused() {
    simulate(async {
        let fixture = remembered(2).await;
        fixture.osts[0].set_info(TargetIdentity {
            incarnation: Incarnation(0xbad),
            ..fixture.osts[0].info()
        });
        let instance = fixture.start().await;
        let state = target(&instance.mds, 0).await;
        assert!(state.refused);
        assert!(state.why_not.unwrap().contains("initialised anew"));
    });
}

#[test]
fn another_clusters_target_is_refused() {
    simulate(async {
        let fixture = Simulated::new(3);
        assert_ne!(CLUSTER, ClusterId(7));
        fixture.osts[0].set_info(TargetIdentity {
            cluster: ClusterId(7),
            ..fixture.osts[0].info()
        });
        let instance = fixture.start().await;
        assert!(target(&instance.mds, 0).await.refused);
    });
}

#[test]
fn a_stamp_reported_while_serving_is_recorded() {
    simulate(async {
        let fixture = remembered(4).await;
        let instance = fixture.start().await;
        let opened = fixture.osts[0].info();
        fixture.osts[0].set_info(TargetIdentity {
            stamp: opened.stamp + 50,
            ..opened
        });
        let admin = || Ok(fixture.osts[0].admin());
        instance
            .mds
            .admit_local_target(OstId(0), admin())
            .await
            .unwrap();
        // The same target's stamp never goes back.
        fixture.osts[0].set_info(opened);
        let back = instance.mds.admit_local_target(OstId(0), admin()).await;
        assert!(matches!(back, Err(FsError::TargetDown { .. })), "{back:?}");
        instance.mds.stop().await.unwrap();
        fixture.kill(&instance.platform).await;
        // The directory is as it was when it was opened: fifty stamps are missing.
        let instance = fixture.start().await;
        assert!(target(&instance.mds, 0).await.refused);
    });
}

#[test]
fn a_target_that_comes_late_is_used_from_then_on() {
    simulate(async {
        let fixture = Simulated::new(5);
        let platform = fixture.platform();
        let mut options = fixture.start_options(&platform);
        let admin = options.targets[1].admin.clone();
        options.targets[1].admin = Err("its disk is not mounted".into());
        let mds = fixture.start_as(options).await.unwrap();
        let state = target(&mds, 1).await;
        assert_eq!(state.why_not.as_deref(), Some("its disk is not mounted"));
        mds.admit_local_target(OstId(1), admin).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(target(&mds, 1).await.usable);
        let refused = mds
            .admit_local_target(OstId(9), Err("no such target".into()))
            .await;
        assert!(matches!(refused, Err(FsError::TargetDown { .. })));
    });
}

#[test]
fn a_target_that_is_not_part_of_this_start_is_shown_as_absent() {
    simulate(async {
        let fixture = remembered(6).await;
        let platform = fixture.platform();
        let mut options = fixture.start_options(&platform);
        options.targets.truncate(1);
        let mds = fixture.start_as(options).await.unwrap();
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
        let fixture = Simulated::new(7);
        let instance = fixture.start().await;
        fixture.osts[0].set_available(0);
        fixture.osts[1].set_down(true);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(
            target(&instance.mds, 0).await.why_not.as_deref(),
            Some("it is full")
        );
        assert!(
            target(&instance.mds, 1)
                .await
                .why_not
                .unwrap()
                .contains("took it away")
        );
        let client = Client::open(&instance.mds).await;
        let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
        let op = gupfs_proto::meta::MetaOp::BeginWrite {
            ino,
            kill_privileges: false,
        };
        assert_eq!(client.change(0, op).await, Err(FsError::NoSpace));
        fixture.osts[0].set_available(1 << 30);
        tokio::time::sleep(Duration::from_secs(3)).await;
        let opened = client.begin_write(ino).await;
        assert!(
            opened
                .layout
                .objects(ino)
                .all(|(_, _, ost, ..)| ost == OstId(0))
        );
        instance.mds.stop().await.unwrap();
    });
}

/// A metadata server whose targets are remote and new; they have adopted this start, and have not reported so yet.
pub async fn with_remote_targets(fixture: &Simulated) -> (Arc<Mds>, Vec<TargetHandle>) {
    for ost in &fixture.osts {
        ost.set_info(TargetIdentity {
            stamp: 0,
            run: 0,
            ..ost.info()
        });
    }
    let mut options = fixture.start_options(&fixture.platform());
    let targets = std::mem::take(&mut options.targets);
    options.dial = Some(Arc::new(RemoteOss(targets.clone())));
    let mds = fixture.start_as(options).await.unwrap();
    for ost in &fixture.osts {
        let incarnation = ost.info().incarnation;
        let request = cluster::ClusterRequest::RegisterTarget { incarnation };
        let admitted: cluster::ClusterReply = mds.clone().handle(request).await;
        admitted.unwrap();
    }
    let ClusterReplyBody::Reported { owner, .. } = report(&mds, &targets, None).await else {
        unreachable!("this is the reply to a report")
    };
    for target in &targets {
        target.admin.clone().unwrap().adopt(owner).await.unwrap();
    }
    (mds, targets)
}

pub async fn report(
    mds: &Arc<Mds>,
    targets: &[TargetHandle],
    space: Option<TargetCapacity>,
) -> ClusterReplyBody {
    let report = OssReport {
        address: "elsewhere".into(),
        targets: targets
            .iter()
            .map(|target| target_report(target, space))
            .collect(),
        stopping: false,
    };
    let reply: cluster::ClusterReply = mds
        .clone()
        .handle(cluster::ClusterRequest::Report(report))
        .await;
    reply.unwrap()
}

pub const FREE_SPACE: Option<TargetCapacity> = Some(TargetCapacity {
    volume: 0,
    total: 1 << 40,
    free: 1 << 39,
    available: 1 << 39,
    objects: 0,
});

#[test]
fn a_new_file_waits_until_a_target_reports_free_space() {
    simulate(async {
        let fixture = Simulated::new(8);
        let (mds, targets) = with_remote_targets(&fixture).await;
        let client = Client::open(&mds).await;
        let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
        let placed = tokio::spawn(async move { client.begin_write(ino).await });
        // Their servers report, but their disks do not answer.
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            report(&mds, &targets, None).await;
        }
        assert!(!target(&mds, 0).await.usable && !placed.is_finished());
        report(&mds, &targets, FREE_SPACE).await;
        placed.await.unwrap();
        mds.stop().await.unwrap();
    });
}

/// At any time: also while the contents of the first report are not durable yet.
#[test]
fn a_new_file_that_comes_with_the_first_report_is_placed() {
    for polls in 0..100 {
        simulate(async {
            let fixture = Simulated::new(9);
            let (mds, targets) = with_remote_targets(&fixture).await;
            let client = Client::open(&mds).await;
            let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
            let comes = async {
                for _ in 0..polls {
                    tokio::task::yield_now().await;
                }
                client.begin_write(ino).await
            };
            tokio::join!(report(&mds, &targets, FREE_SPACE), comes);
            mds.stop().await.unwrap();
        });
    }
}
