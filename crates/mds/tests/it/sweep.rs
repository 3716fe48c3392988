//! The sweep for objects without a file.

use crate::client::Client;
use crate::fixture::{Simulated, simulate};
use crate::truncates::{file, sizes};
use crate::writers::write;
use gupfs_mds::Mds;
use gupfs_proto::cluster::{ClusterRequest, DrainChange};
use gupfs_proto::{InodeId, OstId};
use gupfs_rpc::Service;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Objects of files whose records a power loss undid do not stay at the OSTs.
#[test]
fn objects_of_a_file_that_a_power_loss_undid_are_swept() {
    // A power loss may keep changes that were not synced.
    let forgot = (0..20).filter(|seed| is_undone_and_swept(*seed));
    assert!(
        forgot.count() > 2,
        "the power losses undid nothing: the test shows nothing"
    );
}

/// False if the power loss kept the file.
fn is_undone_and_swept(seed: u64) -> bool {
    simulate(async {
        let fixture = Simulated::new(seed);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let kept = file(&fixture, &client, 8 * MIB).await;
        client.sync().await.unwrap();
        let there = sizes(&fixture);
        let forgotten = client.create(0, InodeId::ROOT, "forgotten").await.unwrap();
        let opened = client.begin_write(forgotten).await;
        write(&fixture.osts, &opened, 8 * MIB, 1);
        assert!(sizes(&fixture).len() > there.len());
        fixture.lose_power(&instance.platform).await;
        let instance = fixture.start().await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let sweep = instance.mds.status().await.sweep;
        let client = Client::open(&instance.mds).await;
        let lost = client.attr(forgotten).await.is_err();
        if lost {
            assert_eq!(sizes(&fixture), there);
            assert_eq!((sweep.left, sweep.objects_removed > 0), (0, true));
        }
        assert_eq!(client.attr(kept).await.unwrap().size, 8 * MIB);
        instance.mds.stop().await.unwrap();
        lost
    })
}

async fn drain(mds: &Arc<Mds>, change: DrainChange) {
    let ost = OstId(0);
    let request = ClusterRequest::ManageDrain { ost, change };
    mds.clone().handle(request).await.unwrap();
}

/// What a cancelled drain has moved is removed from where it was; not at once, since reads may be under way there.
#[test]
fn what_a_cancelled_drain_has_left_is_swept() {
    simulate(async {
        let fixture = Simulated::new(3);
        let instance = fixture.start().await;
        let mds = &instance.mds;
        let client = Client::open(mds).await;
        let kept = file(&fixture, &client, 8 * MIB).await;
        client.sync().await.unwrap();
        let before = fixture.osts[0].list();
        assert!(!before.is_empty());
        drain(mds, DrainChange::Start { rate: None }).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(fixture.osts[0].list(), before);
        let moved = sizes(&fixture).len();
        drain(mds, DrainChange::Cancel).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(fixture.osts[0].list(), before);
        assert!(mds.status().await.sweep.left > 0);
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(fixture.osts[0].list(), []);
        let sweep = mds.status().await.sweep;
        let removed = before.len() as u64;
        assert_eq!((sweep.left, sweep.objects_removed), (0, removed));
        assert_eq!(sizes(&fixture).len(), moved - before.len());
        assert_eq!(client.attr(kept).await.unwrap().size, 8 * MIB);
        // Files that are made there now stay.
        let new = client.create(0, InodeId::ROOT, "new").await.unwrap();
        let opened = client.begin_write(new).await;
        let written = write(&fixture.osts, &opened, 8 * MIB, 1);
        client.end_write(new, written).await;
        let there = sizes(&fixture);
        drain(mds, DrainChange::Cancel).await;
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!(sizes(&fixture), there);
        instance.mds.stop().await.unwrap();
    });
}
