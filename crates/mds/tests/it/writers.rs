//! A writer that died without a last word: the objects say what it wrote.

use crate::client::Client;
use crate::house::{Life, Simulated, simulate};
use crate::ost::FakeOst;
use bytes::Bytes;
use gupfs_proto::meta::{Op, Opened, WriteAt, Written};
use gupfs_proto::{InodeId, Timestamp};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// As a client writes `end` bytes: every object that has some exists then.
pub fn write(osts: &[FakeOst], opened: &Opened, end: u64, when: i64) -> Written {
    let mut written = Written {
        size: end,
        mtime: Some(Timestamp::new(when, 0)),
        ..Written::default()
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

async fn killed_while_writing(house: &Simulated, end: u64) -> InodeId {
    let life = house.start().await;
    let client = Client::open(&life.mds).await;
    let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
    let opened = client.begin_write(ino).await;
    write(&house.osts, &opened, end, LATER);
    house.kill(&life.platform).await;
    ino
}

#[test]
fn a_recovered_file_has_the_size_time_and_space_of_its_objects() {
    simulate(async {
        let house = Simulated::new(1);
        let ino = killed_while_writing(&house, 9 * MIB + 5).await;
        let Life { mds, platform } = house.start().await;
        let report = mds.recovery();
        assert_eq!(
            (report.dead_sessions, report.writers, report.sessions_left),
            (1, 1, 0)
        );
        let attr = Client::open(&mds).await.attr(ino).await.unwrap();
        assert_eq!(attr.size, 9 * MIB + 5);
        assert_eq!(attr.mtime, Timestamp::new(LATER, 0));
        assert_eq!(attr.blocks, (9 * MIB + 5).div_ceil(512));
        // The start did not wait for disks: what it found is confirmed later.
        let asked: Vec<String> = house.osts.iter().flat_map(FakeOst::asked).collect();
        let confirms = asked.iter().filter(|asked| asked.starts_with("confirm "));
        assert_eq!(confirms.count(), 0, "{asked:?}");
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(mds.status().await.confirm.files_done, 1);
        mds.stop().await.unwrap();
        house.kill(&platform).await;
        house.check().await;
    });
}

#[test]
fn a_file_whose_ost_is_down_is_recovered_when_it_is_back() {
    simulate(async {
        let house = Simulated::new(2);
        let ino = killed_while_writing(&house, 9 * MIB).await;
        house.osts[1].set_down(true);
        let Life { mds, platform } = house.start().await;
        assert_eq!(mds.recovery().sessions_left, 1);
        let client = Client::open(&mds).await;
        assert_eq!(client.attr(ino).await.unwrap().size, 0);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(mds.status().await.unfinished.sessions, 1);
        house.osts[1].set_down(false);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(mds.status().await.unfinished.sessions, 0);
        assert_eq!(client.attr(ino).await.unwrap().size, 9 * MIB);
        client.change(0, Op::CloseSession).await.unwrap();
        mds.stop().await.unwrap();
        house.kill(&platform).await;
        house.check().await;
    });
}

#[test]
fn what_another_session_made_of_the_file_meanwhile_stays() {
    simulate(async {
        let house = Simulated::new(3);
        let ino = killed_while_writing(&house, 9 * MIB).await;
        house.osts[1].set_down(true);
        let Life { mds, .. } = house.start().await;
        let client = Client::open(&mds).await;
        // Another layout, other objects: what the dead one wrote is nobody's.
        client.truncate(ino, 0).await.unwrap();
        house.osts[1].set_down(false);
        let opened = client.begin_write(ino).await;
        let written = write(&house.osts, &opened, 3 * MIB, LATER);
        client.end_write(ino, written).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(mds.status().await.unfinished.sessions, 0);
        assert_eq!(client.attr(ino).await.unwrap().size, 3 * MIB);
        mds.stop().await.unwrap();
    });
}

/// What was asked about the objects of one layout must not be said of another's.
#[test]
fn a_file_that_changes_while_its_objects_are_asked_is_asked_again() {
    simulate(async {
        let house = Simulated::new(6);
        let ino = killed_while_writing(&house, 9 * MIB).await;
        house.osts[1].set_down(true);
        let Life { mds, .. } = house.start().await;
        let client = Client::open(&mds).await;
        for ost in &house.osts {
            ost.set_down(false);
            ost.set_slow(Duration::from_secs(3));
        }
        // The chore asks within two seconds, and has its answers three seconds later.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        client.truncate(ino, 0).await.unwrap();
        let opened = client.begin_write(ino).await;
        let written = write(&house.osts, &opened, 3 * MIB, LATER);
        client.end_write(ino, written).await;
        assert_eq!(
            mds.status().await.unfinished.sessions,
            0,
            "the chore is at it"
        );
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(mds.status().await.unfinished.sessions, 0);
        assert_eq!(client.attr(ino).await.unwrap().size, 3 * MIB);
        mds.stop().await.unwrap();
    });
}

#[test]
fn a_file_that_was_moving_out_of_its_inode_stays_there_and_its_objects_go() {
    simulate(async {
        let house = Simulated::new(4);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
        let op = Op::WriteInline {
            ino,
            at: WriteAt::Offset(0),
            data: Bytes::from_static(b"small"),
            kill_privileges: false,
        };
        client.change(0, op).await.unwrap();
        let opened = client.begin_write(ino).await;
        write(&house.osts, &opened, 6_000, LATER);
        house.kill(&life.platform).await;
        let Life { mds, .. } = house.start().await;
        let client = Client::open(&mds).await;
        assert_eq!(client.attr(ino).await.unwrap().size, 5);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(house.osts.iter().all(|ost| ost.list().is_empty()));
        mds.stop().await.unwrap();
    });
}

#[test]
fn a_session_that_closes_without_a_last_word_is_recovered_at_once() {
    simulate(async {
        let house = Simulated::new(5);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
        let orphan = client.create(0, InodeId::ROOT, "orphan").await.unwrap();
        client.unlink(0, InodeId::ROOT, "orphan").await.unwrap();
        let opened = client.begin_write(ino).await;
        write(&house.osts, &opened, 5 * MIB, LATER);
        client.change(0, Op::CloseSession).await.unwrap();
        let other = Client::open(&life.mds).await;
        assert_eq!(other.attr(ino).await.unwrap().size, 5 * MIB);
        assert!(other.attr(orphan).await.is_err());
        life.mds.stop().await.unwrap();
    });
}
