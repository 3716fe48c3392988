//! Files that were closed without a sync: their objects are in doubt until the server has confirmed them.

use crate::client::Client;
use crate::fixture::{ServerInstance, Simulated, simulate};
use crate::ost::FakeOst;
use crate::writers::write;
use gupfs_proto::{InodeId, ObjectId, Presence};
use std::collections::BTreeSet;
use std::time::Duration;

const MIB: u64 = 1 << 20;

async fn close_unsynced(fixture: &Simulated, client: &Client, name: &str) -> InodeId {
    close_unsynced_in(fixture, client, InodeId::ROOT, name).await
}

async fn close_unsynced_small(fixture: &Simulated, client: &Client, name: &str) -> InodeId {
    close_unsynced_of(fixture, client, (InodeId::ROOT, name), MIB).await
}

async fn close_unsynced_in(
    fixture: &Simulated,
    client: &Client,
    dir: InodeId,
    name: &str,
) -> InodeId {
    close_unsynced_of(fixture, client, (dir, name), 5 * MIB).await
}

async fn close_unsynced_of(
    fixture: &Simulated,
    client: &Client,
    (dir, name): (InodeId, &str),
    end: u64,
) -> InodeId {
    let ino = client.create(0, dir, name).await.unwrap();
    let opened = client.begin_write(ino).await;
    let mut written = write(&fixture.osts, &opened, end, 1);
    written.unsynced = std::mem::take(&mut written.present);
    client.end_write(ino, written).await;
    ino
}

async fn presence(client: &Client, ino: InodeId) -> Vec<Presence> {
    let opened = client.open_file(ino).await;
    let objects = opened.layout.objects(ino);
    objects.map(|(.., presence)| presence).collect()
}

/// Confirm requests since the last call.
fn confirms(fixture: &Simulated) -> usize {
    let requests: Vec<String> = fixture
        .osts
        .iter()
        .flat_map(FakeOst::take_requests)
        .collect();
    requests
        .iter()
        .filter(|requests| requests.starts_with("confirm "))
        .count()
}

#[test]
fn after_a_close_without_sync_each_object_is_confirmed_present_or_absent() {
    simulate(async {
        let fixture = Simulated::new(11);
        let ServerInstance { mds, platform } = fixture.start().await;
        let client = Client::open(&mds).await;
        let files = [
            close_unsynced(&fixture, &client, "a").await,
            close_unsynced(&fixture, &client, "b").await,
        ];
        for ino in files {
            let presence = presence(&client, ino).await;
            assert!(presence.contains(&Presence::Maybe) && !presence.contains(&Presence::Present));
        }
        tokio::time::sleep(Duration::from_secs(15)).await;
        for ino in files {
            let presence = presence(&client, ino).await;
            assert!(presence.contains(&Presence::Present));
            assert!(!presence.contains(&Presence::Maybe), "{presence:?}");
        }
        let status = mds.status().await.confirm;
        assert_eq!((status.files_done, status.files_left), (2, 0));
        assert!(
            confirms(&fixture) <= fixture.osts.len(),
            "one request per OST"
        );
        // Nothing is in doubt: the server sends no request.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(confirms(&fixture), 0);
        mds.stop().await.unwrap();
        fixture.kill(&platform).await;
        fixture.check().await;
    });
}

#[test]
fn a_stop_leaves_nothing_in_doubt() {
    simulate(async {
        let fixture = Simulated::new(12);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let ino = close_unsynced(&fixture, &client, "a").await;
        instance.mds.stop().await.unwrap();
        fixture.kill(&instance.platform).await;
        let ServerInstance { mds, .. } = fixture.start().await;
        let client = Client::open(&mds).await;
        assert!(!presence(&client, ino).await.contains(&Presence::Maybe));
        assert_eq!(mds.status().await.confirm.files_done, 0);
        mds.stop().await.unwrap();
    });
}

#[test]
fn an_object_lost_before_its_confirmation_reads_as_a_hole() {
    simulate(async {
        let fixture = Simulated::new(13);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let ino = close_unsynced(&fixture, &client, "a").await;
        fixture.kill(&instance.platform).await;
        for ost in &fixture.osts {
            let there: Vec<ObjectId> = ost.list();
            there.into_iter().for_each(|object| ost.lose_object(object));
        }
        let ServerInstance { mds, .. } = fixture.start().await;
        let client = Client::open(&mds).await;
        tokio::time::sleep(Duration::from_secs(15)).await;
        let presence = presence(&client, ino).await;
        assert!(presence.iter().all(|is| *is == Presence::Never));
        assert_eq!(client.attr(ino).await.unwrap().size, 5 * MIB);
        mds.stop().await.unwrap();
    });
}

#[test]
fn a_file_whose_ost_is_down_waits_and_the_others_do_not() {
    simulate(async {
        let fixture = Simulated::new(14);
        let ServerInstance { mds, .. } = fixture.start().await;
        let client = Client::open(&mds).await;
        let wide = close_unsynced(&fixture, &client, "wide").await;
        fixture.osts[1].set_down(true);
        tokio::time::sleep(Duration::from_secs(15)).await;
        let status = mds.status().await.confirm;
        assert_eq!((status.files_done, status.files_left), (0, 1));
        assert!(status.last_error.is_some());
        assert!(presence(&client, wide).await.contains(&Presence::Maybe));
        fixture.osts[1].set_down(false);
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(mds.status().await.confirm.files_done, 1);
        assert!(!presence(&client, wide).await.contains(&Presence::Maybe));
        mds.stop().await.unwrap();
    });
}

#[test]
fn an_ost_that_does_not_answer_keeps_only_its_own_files_in_doubt() {
    simulate(async {
        let fixture = Simulated::new(15);
        let ServerInstance { mds, platform } = fixture.start().await;
        let client = Client::open(&mds).await;
        // Each file has one object, on either OST.
        let mut files = Vec::new();
        for i in 0..20 {
            files.push(close_unsynced_small(&fixture, &client, &format!("f{i}")).await);
        }
        let of_one = fixture.osts[1].list().len() as u64;
        assert!(of_one > 0 && of_one < 20);
        fixture.osts[1].set_stuck(true);
        tokio::time::sleep(Duration::from_secs(18)).await;
        let status = mds.status().await.confirm;
        assert_eq!(
            (status.files_done, status.files_left),
            (20 - of_one, of_one)
        );
        // New files on the other OST are confirmed while that request is still open, and the silent OST gets no further one.
        for i in 20..30 {
            files.push(close_unsynced_small(&fixture, &client, &format!("f{i}")).await);
        }
        let of_one = fixture.osts[1].list().len() as u64;
        tokio::time::sleep(Duration::from_secs(18)).await;
        let status = mds.status().await.confirm;
        assert_eq!(
            (status.files_done, status.files_left),
            (30 - of_one, of_one)
        );
        assert!(status.last_error.unwrap().contains("ost1"));
        fixture.osts[1].set_stuck(false);
        tokio::time::sleep(Duration::from_secs(80)).await;
        assert_eq!(mds.status().await.confirm.files_done, 30);
        for ino in files {
            assert!(!presence(&client, ino).await.contains(&Presence::Maybe));
        }
        mds.stop().await.unwrap();
        fixture.kill(&platform).await;
        fixture.check().await;
    });
}

#[test]
fn files_of_all_shards_are_confirmed_together() {
    simulate(async {
        let fixture = Simulated::new(12);
        let ServerInstance { mds, .. } = fixture.start().await;
        let client = Client::open(&mds).await;
        let mut shards = BTreeSet::new();
        for number in 0..16 {
            let name = format!("d{number}");
            let dir = client.mkdir(0, InodeId::ROOT, &name).await.unwrap();
            let file = close_unsynced_in(&fixture, &client, dir, "file").await;
            shards.insert(file.shard());
        }
        assert!(shards.len() > 1, "{shards:?}");
        confirms(&fixture);
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(mds.status().await.confirm.files_done, 16);
        assert!(
            confirms(&fixture) <= fixture.osts.len(),
            "one request per OST"
        );
        mds.stop().await.unwrap();
    });
}
