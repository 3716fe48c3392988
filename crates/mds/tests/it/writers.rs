//! A writer that died without releasing its write lease: the objects determine the file.

use crate::client::Client;
use crate::fixture::{ServerInstance, Simulated, simulate};
use crate::ost::FakeOst;
use bytes::Bytes;
use gupfs_proto::meta::{AttrReport, MetaOp, OpenInfo, WritePosition};
use gupfs_proto::{InodeId, Timestamp};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Writes `end` bytes as a client does: every object that has some of them exists then.
pub fn write(osts: &[FakeOst], opened: &OpenInfo, end: u64, when: i64) -> AttrReport {
    let mut written = AttrReport {
        size: end,
        mtime: Some(Timestamp::new(when, 0)),
        ..AttrReport::default()
    };
    for (component, stripe, ost, object, _) in opened.layout.objects(opened.attr.ino) {
        let bytes = opened.layout.components[component].object_size(stripe, end);
        if bytes > 0 {
            osts[usize::from(ost.0)].put(object, bytes, Timestamp::new(when, 0));
            written.present.push((component as u32, stripe as u32));
            written.blocks += bytes.div_ceil(512);
        }
    }
    written
}

const LATER: i64 = 4_000_000_000;

async fn killed_while_writing(fixture: &Simulated, end: u64) -> InodeId {
    let instance = fixture.start().await;
    let client = Client::open(&instance.mds).await;
    let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
    let opened = client.begin_write(ino).await;
    write(&fixture.osts, &opened, end, LATER);
    fixture.kill(&instance.platform).await;
    ino
}

#[test]
fn a_recovered_file_has_the_size_time_and_space_of_its_objects() {
    simulate(async {
        let fixture = Simulated::new(1);
        let ino = killed_while_writing(&fixture, 9 * MIB + 5).await;
        let ServerInstance { mds, platform } = fixture.start().await;
        let report = mds.recovery();
        assert_eq!(
            (report.dead_sessions, report.writers, report.sessions_left),
            (1, 1, 0)
        );
        let attr = Client::open(&mds).await.attr(ino).await.unwrap();
        assert_eq!(attr.size, 9 * MIB + 5);
        assert_eq!(attr.mtime, Timestamp::new(LATER, 0));
        assert_eq!(attr.blocks, (9 * MIB + 5).div_ceil(512));
        // The start did not wait for disks: the objects are confirmed later.
        let requests: Vec<String> = fixture
            .osts
            .iter()
            .flat_map(FakeOst::take_requests)
            .collect();
        let confirms = requests
            .iter()
            .filter(|requests| requests.starts_with("confirm "));
        assert_eq!(confirms.count(), 0, "{requests:?}");
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(mds.status().await.confirm.files_done, 1);
        mds.stop().await.unwrap();
        fixture.kill(&platform).await;
        fixture.check().await;
    });
}

#[test]
fn a_file_whose_ost_is_down_is_recovered_when_it_is_back() {
    simulate(async {
        let fixture = Simulated::new(2);
        let ino = killed_while_writing(&fixture, 9 * MIB).await;
        fixture.osts[1].set_down(true);
        let ServerInstance { mds, platform } = fixture.start().await;
        assert_eq!(mds.recovery().sessions_left, 1);
        let client = Client::open(&mds).await;
        assert_eq!(client.attr(ino).await.unwrap().size, 0);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(mds.status().await.unfinished.sessions, 1);
        fixture.osts[1].set_down(false);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(mds.status().await.unfinished.sessions, 0);
        assert_eq!(client.attr(ino).await.unwrap().size, 9 * MIB);
        client.change(0, MetaOp::CloseSession).await.unwrap();
        mds.stop().await.unwrap();
        fixture.kill(&platform).await;
        fixture.check().await;
    });
}

#[test]
fn changes_of_another_session_before_the_recovery_stay() {
    simulate(async {
        let fixture = Simulated::new(3);
        let ino = killed_while_writing(&fixture, 9 * MIB).await;
        fixture.osts[1].set_down(true);
        let ServerInstance { mds, .. } = fixture.start().await;
        let client = Client::open(&mds).await;
        // Another layout, other objects: the bytes of the dead writer are not part of the file.
        client.truncate(ino, 0).await.unwrap();
        fixture.osts[1].set_down(false);
        let opened = client.begin_write(ino).await;
        let written = write(&fixture.osts, &opened, 3 * MIB, LATER);
        client.end_write(ino, written).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(mds.status().await.unfinished.sessions, 0);
        assert_eq!(client.attr(ino).await.unwrap().size, 3 * MIB);
        mds.stop().await.unwrap();
    });
}

/// The state of the objects of one layout must not be recorded for another layout.
#[test]
fn a_file_that_changes_during_its_recovery_is_recovered_again() {
    simulate(async {
        let fixture = Simulated::new(6);
        let ino = killed_while_writing(&fixture, 9 * MIB).await;
        fixture.osts[1].set_down(true);
        let ServerInstance { mds, .. } = fixture.start().await;
        let client = Client::open(&mds).await;
        for ost in &fixture.osts {
            ost.set_down(false);
            ost.set_slow(Duration::from_secs(3));
        }
        // The background task asks within two seconds, and has its replies three seconds later.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        client.truncate(ino, 0).await.unwrap();
        let opened = client.begin_write(ino).await;
        let written = write(&fixture.osts, &opened, 3 * MIB, LATER);
        client.end_write(ino, written).await;
        assert_eq!(
            mds.status().await.unfinished.sessions,
            0,
            "the background task is recovering it"
        );
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(mds.status().await.unfinished.sessions, 0);
        assert_eq!(client.attr(ino).await.unwrap().size, 3 * MIB);
        mds.stop().await.unwrap();
    });
}

#[test]
fn a_file_that_was_leaving_its_inode_stays_inline_and_its_objects_are_removed() {
    simulate(async {
        let fixture = Simulated::new(4);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
        let op = MetaOp::WriteInline {
            ino,
            at: WritePosition::Offset(0),
            data: Bytes::from_static(b"small"),
            kill_privileges: false,
        };
        client.change(0, op).await.unwrap();
        let opened = client.begin_write(ino).await;
        write(&fixture.osts, &opened, 6_000, LATER);
        fixture.kill(&instance.platform).await;
        let ServerInstance { mds, .. } = fixture.start().await;
        let client = Client::open(&mds).await;
        assert_eq!(client.attr(ino).await.unwrap().size, 5);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(fixture.osts.iter().all(|ost| ost.list().is_empty()));
        mds.stop().await.unwrap();
    });
}

#[test]
fn a_session_that_closes_with_a_write_lease_is_recovered_at_once() {
    simulate(async {
        let fixture = Simulated::new(5);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
        let orphan = client.create(0, InodeId::ROOT, "orphan").await.unwrap();
        client.unlink(0, InodeId::ROOT, "orphan").await.unwrap();
        let opened = client.begin_write(ino).await;
        write(&fixture.osts, &opened, 5 * MIB, LATER);
        client.change(0, MetaOp::CloseSession).await.unwrap();
        let other = Client::open(&instance.mds).await;
        assert_eq!(other.attr(ino).await.unwrap().size, 5 * MIB);
        assert!(other.attr(orphan).await.is_err());
        instance.mds.stop().await.unwrap();
    });
}
