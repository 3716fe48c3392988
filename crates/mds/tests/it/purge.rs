//! Removed files give back their space: soon, once, whatever happens in between.

use crate::client::Client;
use crate::house::{Life, Simulated, simulate};
use crate::ost::FakeOst;
use crate::writers::write;
use gupfs_proto::InodeId;
use std::time::Duration;

const MIB: u64 = 1 << 20;

async fn written(house: &Simulated, client: &Client, what: &str, end: u64) -> InodeId {
    let ino = client.create(0, InodeId::ROOT, what).await.unwrap();
    let opened = client.begin_write(ino).await;
    let written = write(&house.osts, &opened, end, 1);
    client.end_write(ino, written).await;
    ino
}

fn objects(house: &Simulated) -> usize {
    house.osts.iter().map(|ost| ost.list().len()).sum()
}

fn asked(house: &Simulated) -> Vec<String> {
    house.osts.iter().flat_map(FakeOst::asked).collect()
}

#[test]
fn the_objects_of_a_removed_file_go_at_once_and_durably() {
    simulate(async {
        let house = Simulated::new(1);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let ino = written(&house, &client, "file", 6 * MIB).await;
        assert_eq!(objects(&house), 3);
        client.unlink(0, InodeId::ROOT, "file").await.unwrap();
        assert_eq!(objects(&house), 3, "somebody may have it open");
        client.forget(ino).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(objects(&house), 0);
        let asked = asked(&house);
        let removed = asked
            .iter()
            .filter(|asked| asked.starts_with("remove "))
            .count();
        let synced = asked
            .iter()
            .filter(|asked| asked.starts_with("sync "))
            .count();
        assert_eq!((removed, synced), (3, 2), "{asked:?}");
        let status = life.mds.status().await;
        assert_eq!((status.inodes, status.purging), (Some(1), Some(0)));
        assert_eq!(
            (status.purge.files_done, status.purge.objects_removed),
            (1, 3)
        );
        life.mds.stop().await.unwrap();
        house.kill(&life.platform).await;
    });
}

#[test]
fn an_ost_that_is_down_delays_its_own_objects_only() {
    simulate(async {
        let house = Simulated::new(2);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        // One object each, on either OST.
        let mut inodes = Vec::new();
        for i in 0..20 {
            inodes.push(written(&house, &client, &format!("f{i}"), MIB).await);
        }
        let (zero, one) = (house.osts[0].list().len(), house.osts[1].list().len());
        assert!(zero > 0 && one > 0);
        house.osts[1].set_down(true);
        for (i, ino) in inodes.into_iter().enumerate() {
            client
                .unlink(0, InodeId::ROOT, &format!("f{i}"))
                .await
                .unwrap();
            client.forget(ino).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(
            (house.osts[0].list().len(), house.osts[1].list().len()),
            (0, one)
        );
        let status = life.mds.status().await;
        assert_eq!(status.purging, Some(one as u64));
        assert_eq!(status.purge.delayed, one as u64);
        assert!(status.purge.last_error.unwrap().contains("took it away"));
        house.osts[1].set_down(false);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(objects(&house), 0);
        assert_eq!(life.mds.status().await.purging, Some(0));
        life.mds.stop().await.unwrap();
    });
}

#[test]
fn an_ost_that_does_not_answer_holds_up_nobody_elses_objects() {
    simulate(async {
        let house = Simulated::new(5);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        // More than one job takes, of one object and of three on both.
        let mut inodes = Vec::new();
        for i in 0..1_300 {
            let end = if i % 4 == 0 { 6 * MIB } else { MIB };
            inodes.push(written(&house, &client, &format!("f{i}"), end).await);
        }
        assert!(house.osts[0].list().len() > 600 && house.osts[1].list().len() > 600);
        house.osts[1].set_stuck(true);
        for (i, ino) in inodes.into_iter().enumerate() {
            client
                .unlink(0, InodeId::ROOT, &format!("f{i}"))
                .await
                .unwrap();
            client.forget(ino).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(house.osts[0].list().len(), 0, "it answers");
        let waiting = life.mds.status().await.purge.waiting;
        assert!(
            waiting >= house.osts[1].list().len() as u64 / 2,
            "{waiting}"
        );
        house.osts[1].set_stuck(false);
        // A question that it never answers is given up after a minute.
        tokio::time::sleep(Duration::from_secs(70)).await;
        assert_eq!(objects(&house), 0);
        let status = life.mds.status().await;
        assert_eq!(
            (status.purging, status.purge.waiting, status.purge.delayed),
            (Some(0), 0, 0)
        );
        assert_eq!(status.purge.files_done, 1_300);
        life.mds.stop().await.unwrap();
        house.kill(&life.platform).await;
        house.check().await;
    });
}

#[test]
fn a_purge_that_a_kill_broke_off_goes_on_after_the_start() {
    simulate(async {
        let house = Simulated::new(3);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        house.osts[0].set_down(true);
        for i in 0..600 {
            let ino = written(&house, &client, &format!("f{i}"), 1).await;
            client
                .unlink(0, InodeId::ROOT, &format!("f{i}"))
                .await
                .unwrap();
            client.forget(ino).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        house.kill(&life.platform).await;
        assert!(objects(&house) > 200);
        house.osts[0].set_down(false);
        let Life { mds, platform } = house.start().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(objects(&house), 0);
        assert_eq!(mds.status().await.purging, Some(0));
        mds.stop().await.unwrap();
        house.kill(&platform).await;
        house.check().await;
    });
}

/// Were the objects gone and their removal not durable, a power cut would bring back a file that lost its bytes.
#[test]
fn no_object_goes_before_its_removal_is_durable() {
    simulate(async {
        let house = Simulated::new(4);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let ino = written(&house, &client, "file", MIB).await;
        client.sync().await.unwrap();
        house.disk.fail_sync(1);
        client.unlink(0, InodeId::ROOT, "file").await.unwrap();
        let op = gupfs_proto::meta::Op::Forgotten { inodes: vec![ino] };
        let _ = client.change(0, op).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(objects(&house), 1);
    });
}
