//! The space of removed files becomes free: soon, once, whatever happens in between.

use crate::client::Client;
use crate::fixture::{ServerInstance, Simulated, simulate};
use crate::ost::FakeOst;
use crate::writers::write;
use gupfs_proto::InodeId;
use std::time::Duration;

const MIB: u64 = 1 << 20;

async fn written(fixture: &Simulated, client: &Client, what: &str, end: u64) -> InodeId {
    let ino = client.create(0, InodeId::ROOT, what).await.unwrap();
    let opened = client.begin_write(ino).await;
    let written = write(&fixture.osts, &opened, end, 1);
    client.end_write(ino, written).await;
    ino
}

fn objects(fixture: &Simulated) -> usize {
    fixture.osts.iter().map(|ost| ost.list().len()).sum()
}

fn take_requests(fixture: &Simulated) -> Vec<String> {
    fixture
        .osts
        .iter()
        .flat_map(FakeOst::take_requests)
        .collect()
}

#[test]
fn the_objects_of_a_removed_file_go_at_once_and_durably() {
    simulate(async {
        let fixture = Simulated::new(1);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let ino = written(&fixture, &client, "file", 6 * MIB).await;
        assert_eq!(objects(&fixture), 3);
        client.unlink(0, InodeId::ROOT, "file").await.unwrap();
        assert_eq!(objects(&fixture), 3, "a session may have it open");
        client.forget(ino).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(objects(&fixture), 0);
        let requests = take_requests(&fixture);
        let removed = requests
            .iter()
            .filter(|requests| requests.starts_with("remove "))
            .count();
        let synced = requests
            .iter()
            .filter(|requests| requests.starts_with("sync "))
            .count();
        assert_eq!((removed, synced), (3, 2), "{requests:?}");
        let status = instance.mds.status().await;
        assert_eq!((status.inodes, status.purging), (Some(1), Some(0)));
        assert_eq!(
            (status.purge.files_done, status.purge.objects_removed),
            (1, 3)
        );
        instance.mds.stop().await.unwrap();
        fixture.kill(&instance.platform).await;
    });
}

#[test]
fn files_that_are_removed_one_after_another_share_the_syncs_of_their_removal() {
    simulate(async {
        let fixture = Simulated::new(6);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let mut inodes = Vec::new();
        for i in 0..200 {
            inodes.push(written(&fixture, &client, &format!("f{i}"), MIB).await);
        }
        assert_eq!(objects(&fixture), 200);
        take_requests(&fixture);
        let begun = tokio::time::Instant::now();
        for (i, ino) in inodes.into_iter().enumerate() {
            client
                .unlink(0, InodeId::ROOT, &format!("f{i}"))
                .await
                .unwrap();
            client.forget(ino).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(objects(&fixture), 0);
        let requests = take_requests(&fixture).into_iter();
        let syncs = requests
            .filter(|request| request.starts_with("sync "))
            .count();
        // One for each OST in each round of 100 ms; one for each file would be 200.
        let rounds = begun.elapsed().as_millis() as usize / 100;
        assert!(
            syncs <= 2 * rounds && rounds < 20,
            "{syncs} syncs in {rounds} rounds"
        );
        instance.mds.stop().await.unwrap();
        fixture.kill(&instance.platform).await;
        fixture.check().await;
    });
}

#[test]
fn an_ost_that_is_down_delays_its_own_objects_only() {
    simulate(async {
        let fixture = Simulated::new(2);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        // Each file has one object, on either OST.
        let mut inodes = Vec::new();
        for i in 0..20 {
            inodes.push(written(&fixture, &client, &format!("f{i}"), MIB).await);
        }
        let (zero, one) = (fixture.osts[0].list().len(), fixture.osts[1].list().len());
        assert!(zero > 0 && one > 0);
        fixture.osts[1].set_down(true);
        for (i, ino) in inodes.into_iter().enumerate() {
            client
                .unlink(0, InodeId::ROOT, &format!("f{i}"))
                .await
                .unwrap();
            client.forget(ino).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(
            (fixture.osts[0].list().len(), fixture.osts[1].list().len()),
            (0, one)
        );
        let status = instance.mds.status().await;
        assert_eq!(status.purging, Some(one as u64));
        assert_eq!(status.purge.delayed, one as u64);
        assert!(status.purge.last_error.unwrap().contains("took it away"));
        fixture.osts[1].set_down(false);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(objects(&fixture), 0);
        assert_eq!(instance.mds.status().await.purging, Some(0));
        instance.mds.stop().await.unwrap();
    });
}

#[test]
fn an_ost_that_does_not_answer_delays_no_objects_of_other_osts() {
    simulate(async {
        let fixture = Simulated::new(5);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        // More files than one job takes, of one object and of three on both.
        let mut inodes = Vec::new();
        for i in 0..1_300 {
            let end = if i % 4 == 0 { 6 * MIB } else { MIB };
            inodes.push(written(&fixture, &client, &format!("f{i}"), end).await);
        }
        assert!(fixture.osts[0].list().len() > 600 && fixture.osts[1].list().len() > 600);
        fixture.osts[1].set_stuck(true);
        for (i, ino) in inodes.into_iter().enumerate() {
            client
                .unlink(0, InodeId::ROOT, &format!("f{i}"))
                .await
                .unwrap();
            client.forget(ino).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(fixture.osts[0].list().len(), 0, "ost0 replies");
        let waiting = instance.mds.status().await.purge.waiting;
        assert!(
            waiting >= fixture.osts[1].list().len() as u64 / 2,
            "{waiting}"
        );
        fixture.osts[1].set_stuck(false);
        // A request that the OST never answers times out after a minute.
        tokio::time::sleep(Duration::from_secs(70)).await;
        assert_eq!(objects(&fixture), 0);
        let status = instance.mds.status().await;
        assert_eq!(
            (status.purging, status.purge.waiting, status.purge.delayed),
            (Some(0), 0, 0)
        );
        assert_eq!(status.purge.files_done, 1_300);
        instance.mds.stop().await.unwrap();
        fixture.kill(&instance.platform).await;
        fixture.check().await;
    });
}

#[test]
fn a_purge_interrupted_by_a_kill_continues_after_the_start() {
    simulate(async {
        let fixture = Simulated::new(3);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        fixture.osts[0].set_down(true);
        for i in 0..600 {
            let ino = written(&fixture, &client, &format!("f{i}"), 1).await;
            client
                .unlink(0, InodeId::ROOT, &format!("f{i}"))
                .await
                .unwrap();
            client.forget(ino).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        fixture.kill(&instance.platform).await;
        assert!(objects(&fixture) > 200);
        fixture.osts[0].set_down(false);
        let ServerInstance { mds, platform } = fixture.start().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(objects(&fixture), 0);
        assert_eq!(mds.status().await.purging, Some(0));
        mds.stop().await.unwrap();
        fixture.kill(&platform).await;
        fixture.check().await;
    });
}

/// Were the objects gone and their removal not durable, a power loss would bring back a file that lost its bytes.
#[test]
fn no_object_goes_before_its_removal_is_durable() {
    simulate(async {
        let fixture = Simulated::new(4);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let ino = written(&fixture, &client, "file", MIB).await;
        client.sync().await.unwrap();
        fixture.disk.fail_sync(1);
        client.unlink(0, InodeId::ROOT, "file").await.unwrap();
        let op = gupfs_proto::meta::MetaOp::Forget { inodes: vec![ino] };
        let _ = client.change(0, op).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(objects(&fixture), 1);
    });
}
