//! The contents of `gupfs status`.

use crate::client::Client;
use crate::fixture::{Simulated, simulate};
use gupfs_mds::MdsState;
use gupfs_proto::InodeId;
use gupfs_proto::meta::MetaOp;
use std::time::Duration;

#[test]
fn status_tells_counts_sessions_and_latencies_and_is_json() {
    simulate(async {
        let fixture = Simulated::new(1);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        client.mkdir(0, InodeId::ROOT, "dir").await.unwrap();
        client.mkdir(0, InodeId::ROOT, "dir").await.unwrap_err();
        let status = instance.mds.status().await;
        assert_eq!(status.state, MdsState::Serving);
        assert_eq!(status.inodes, Some(2));
        assert_eq!(status.sessions[&client.session].client, "a test");
        let mkdir = status.ops.iter().find(|op| op.op == "mkdir").unwrap();
        assert_eq!((mkdir.done, mkdir.refused), (2, 1));
        assert_eq!(status.targets.len(), 2);
        assert!(status.staged >= status.committed && status.committed >= status.durable);
        let json = serde_json::to_value(&status).unwrap();
        assert_eq!(json["recovery"]["formatted"], true);
        instance.mds.stop().await.unwrap();
    });
}

#[test]
fn a_waiting_call_says_what_it_waits_for_and_ends_at_its_deadline() {
    simulate(async {
        let fixture = Simulated::new(2);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
        let opened = client.begin_write(ino).await;
        let written = crate::writers::write(&fixture.osts, &opened, 2 << 20, 1);
        client.end_write(ino, written).await;
        fixture.osts.iter().for_each(|ost| ost.set_stuck(true));
        let truncated = client.truncate(ino, 1);
        let look = async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            // Another request waits for the same truncate.
            let open = MetaOp::Open {
                ino,
                open: crate::client::WRITE,
            };
            let other = client.change(1, open);
            let look = async {
                tokio::time::sleep(Duration::from_secs(5)).await;
                instance.mds.status().await.waits
            };
            tokio::join!(other, look)
        };
        let (truncated, (other, waits)) = tokio::join!(truncated, look);
        assert!(
            truncated.is_err() && other.is_err(),
            "{truncated:?} {other:?}"
        );
        let waits: Vec<_> = waits
            .into_iter()
            .filter(|wait| wait.session == client.session)
            .collect();
        assert_eq!(waits.len(), 1, "{waits:?}");
        assert_eq!(waits[0].op, "open");
        assert_eq!(
            waits[0].waits_for,
            format!("the truncate of inode {:x} at its OSTs", ino.0)
        );
        assert!(waits[0].millis >= 5_000);
    });
}

#[test]
fn a_stopped_server_answers_nothing_and_its_stop_waits_for_what_is_under_way() {
    simulate(async {
        let fixture = Simulated::new(3);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let made = client.create(0, InodeId::ROOT, "file");
        let (made, stopped) = tokio::join!(made, instance.mds.stop());
        made.unwrap();
        stopped.unwrap();
        assert!(client.attr(InodeId::ROOT).await.is_err());
        fixture.kill(&instance.platform).await;
        let instance = fixture.start().await;
        assert_eq!(instance.mds.recovery().replayed, 0);
        instance.mds.stop().await.unwrap();
    });
}
