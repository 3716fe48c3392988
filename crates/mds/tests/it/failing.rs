//! A store that fails ends its server: nothing is answered that could turn out not to be kept.

use crate::client::Client;
use crate::house::{Simulated, simulate};
use gupfs_mds::MdsState;
use gupfs_platform::fake::CallKind;
use gupfs_proto::{InodeId, Refusal};
use std::time::Duration;

#[test]
fn a_failed_sync_stops_the_server_and_status_says_so() {
    simulate(async {
        let house = Simulated::new(1);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        client.create(0, InodeId::ROOT, "before").await.unwrap();
        house.disk.fail_sync(1);
        client.create(0, InodeId::ROOT, "after").await.unwrap();
        let sync = client.sync().await;
        assert!(matches!(sync, Err(Refusal::StoreFailed(_))), "{sync:?}");
        // Reading too: what is in memory may not be what is kept.
        let read = client.attr(InodeId::ROOT).await;
        assert!(matches!(read, Err(Refusal::StoreFailed(_))), "{read:?}");
        let made = client.create(0, InodeId::ROOT, "later").await;
        assert!(matches!(made, Err(Refusal::StoreFailed(_))), "{made:?}");
        let status = life.mds.status().await;
        assert!(
            matches!(status.state, MdsState::Failed(_)),
            "{:?}",
            status.state
        );
        assert!(life.mds.stop().await.is_err());

        house.cut_power(&life.platform).await;
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        client.lookup(InodeId::ROOT, "before").await.unwrap();
        life.mds.stop().await.unwrap();
    });
}

/// The sync in the background has nobody who waits for it.
#[test]
fn a_sync_that_fails_in_the_background_stops_the_server() {
    simulate(async {
        let house = Simulated::new(2);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        house.disk.fail_sync(1);
        client.create(0, InodeId::ROOT, "file").await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let read = client.attr(InodeId::ROOT).await;
        assert!(matches!(read, Err(Refusal::StoreFailed(_))), "{read:?}");
        let status = life.mds.status().await;
        assert!(
            matches!(status.state, MdsState::Failed(_)),
            "{:?}",
            status.state
        );
    });
}

#[test]
fn a_failed_write_is_no_answer() {
    simulate(async {
        let house = Simulated::new(3);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        house.disk.die_at(CallKind::Write, 1);
        let made = client.create(0, InodeId::ROOT, "file").await;
        assert!(matches!(made, Err(Refusal::StoreFailed(_))), "{made:?}");
    });
}

#[test]
fn a_full_metadata_disk_refuses_growth_and_goes_on_removing() {
    simulate(async {
        let house = Simulated::new(4);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
        house.disk.set_capacity(1);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(!life.mds.status().await.growth_allowed);
        let made = client.create(0, InodeId::ROOT, "another").await;
        assert_eq!(made, Err(Refusal::NoSpace));
        client.unlink(0, InodeId::ROOT, "file").await.unwrap();
        client.forget(ino).await;
        house.disk.set_capacity(1 << 40);
        tokio::time::sleep(Duration::from_secs(3)).await;
        client.create(0, InodeId::ROOT, "another").await.unwrap();
        life.mds.stop().await.unwrap();
    });
}
