//! A store that fails ends its server: the server sends no reply about a change that may not be kept.

use crate::client::Client;
use crate::fixture::{Simulated, simulate};
use gupfs_mds::MdsState;
use gupfs_platform::fake::CallKind;
use gupfs_proto::{FsError, InodeId};
use std::time::Duration;

#[test]
fn a_failed_sync_stops_the_server_and_status_says_so() {
    simulate(async {
        let fixture = Simulated::new(1);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        client.create(0, InodeId::ROOT, "before").await.unwrap();
        fixture.disk.fail_sync(1);
        client.create(0, InodeId::ROOT, "after").await.unwrap();
        let sync = client.sync().await;
        assert!(matches!(sync, Err(FsError::StoreFailed(_))), "{sync:?}");
        // Reading fails, too: the state in memory may not be the state on disk.
        let read = client.attr(InodeId::ROOT).await;
        assert!(matches!(read, Err(FsError::StoreFailed(_))), "{read:?}");
        let made = client.create(0, InodeId::ROOT, "later").await;
        assert!(matches!(made, Err(FsError::StoreFailed(_))), "{made:?}");
        let status = instance.mds.status().await;
        assert!(
            matches!(status.state, MdsState::Failed(_)),
            "{:?}",
            status.state
        );
        assert!(instance.mds.stop().await.is_err());

        fixture.lose_power(&instance.platform).await;
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        client.lookup(InodeId::ROOT, "before").await.unwrap();
        instance.mds.stop().await.unwrap();
    });
}

/// No request waits for the sync in the background.
#[test]
fn a_sync_that_fails_in_the_background_stops_the_server() {
    simulate(async {
        let fixture = Simulated::new(2);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        fixture.disk.fail_sync(1);
        client.create(0, InodeId::ROOT, "file").await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let read = client.attr(InodeId::ROOT).await;
        assert!(matches!(read, Err(FsError::StoreFailed(_))), "{read:?}");
        let status = instance.mds.status().await;
        assert!(
            matches!(status.state, MdsState::Failed(_)),
            "{:?}",
            status.state
        );
    });
}

#[test]
fn a_failed_log_write_fails_the_request() {
    simulate(async {
        let fixture = Simulated::new(3);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        fixture.disk.die_at(CallKind::Write, 1);
        let made = client.create(0, InodeId::ROOT, "file").await;
        assert!(matches!(made, Err(FsError::StoreFailed(_))), "{made:?}");
    });
}

#[test]
fn a_full_metadata_disk_refuses_growth_and_goes_on_removing() {
    simulate(async {
        let fixture = Simulated::new(4);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
        fixture.disk.set_capacity(1);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(!instance.mds.status().await.growth_allowed);
        let made = client.create(0, InodeId::ROOT, "another").await;
        assert_eq!(made, Err(FsError::NoSpace));
        client.unlink(0, InodeId::ROOT, "file").await.unwrap();
        client.forget(ino).await;
        fixture.disk.set_capacity(1 << 40);
        tokio::time::sleep(Duration::from_secs(3)).await;
        client.create(0, InodeId::ROOT, "another").await.unwrap();
        instance.mds.stop().await.unwrap();
    });
}
