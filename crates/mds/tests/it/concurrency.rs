//! Many tasks at once: each sees its own changes, no change is lost, and a directory that changes is listed completely.

use crate::client::{Client, name};
use crate::fixture::DirFixture;
use gupfs_proto::meta::{AccessMode, MetaOp, MetaReplyBody};
use gupfs_proto::{FsError, InodeId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_tasks_make_and_remove_without_losing_anything() {
    let fixture = DirFixture::new();
    let mds = fixture.start().await;
    let client = Arc::new(Client::open(&mds).await);
    let shared = client.mkdir(0, InodeId::ROOT, "shared").await.unwrap();
    let tasks: Vec<_> = (0..64u16)
        .map(|slot| {
            let client = client.clone();
            tokio::spawn(async move {
                let own = client
                    .mkdir(slot, InodeId::ROOT, &format!("own{slot}"))
                    .await
                    .unwrap();
                for i in 0..40 {
                    let text = format!("{slot}-{i}");
                    let ino = client.create(slot, shared, &text).await.unwrap();
                    assert_eq!(client.lookup(shared, &text).await.unwrap().ino, ino);
                    let link = MetaOp::Link {
                        ino,
                        dir: own,
                        name: name(&text),
                    };
                    client.change(slot, link).await.unwrap();
                    assert_eq!(client.attr(ino).await.unwrap().nlink, 2);
                    if i % 2 == 0 {
                        client.unlink(slot, shared, &text).await.unwrap();
                        assert_eq!(client.lookup(shared, &text).await, Err(FsError::NotFound));
                    }
                }
                own
            })
        })
        .collect();
    for task in tasks {
        let own = task.await.unwrap();
        assert_eq!(client.list_names(own, 1000).await.len(), 40);
    }
    assert_eq!(client.list_names(shared, 100).await.len(), 64 * 20);
    let status = mds.status().await;
    assert_eq!(status.inodes, Some(1 + 1 + 64 + 64 * 40));
    assert!(status.store.log_writes <= status.store.log_changes);
    assert_eq!(status.under_way, 0);
    mds.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_of_a_changing_directory_has_every_unchanged_name_once() {
    let fixture = DirFixture::new();
    let mds = fixture.start().await;
    let client = Arc::new(Client::open(&mds).await);
    for i in 0..300 {
        client
            .create(0, InodeId::ROOT, &format!("stays{i}"))
            .await
            .unwrap();
    }
    let ended = Arc::new(AtomicBool::new(false));
    let rounds = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
    let churn = |slot: u16, rounds: Arc<AtomicU64>| {
        let (client, ended) = (client.clone(), ended.clone());
        tokio::spawn(async move {
            while !ended.load(SeqCst) {
                let text = format!("goes{slot}-{}", rounds.load(SeqCst));
                client.create(slot, InodeId::ROOT, &text).await.unwrap();
                client.unlink(slot, InodeId::ROOT, &text).await.unwrap();
                rounds.fetch_add(1, SeqCst);
            }
        })
    };
    let churns = [churn(1, rounds[0].clone()), churn(2, rounds[1].clone())];
    // On a busy machine the listings may end before the other tasks ran: the listing task goes on until all have changed.
    let changed = || rounds.iter().all(|done| done.load(SeqCst) > 10);
    let mut steps = [5, 50, 1_000, 7, 64].into_iter().cycle();
    for listed in 0.. {
        if listed >= 5 && changed() {
            break;
        }
        assert!(
            !churns.iter().any(|churn| churn.is_finished()),
            "one failed"
        );
        let step = steps.next().unwrap();
        let names = client.list_names(InodeId::ROOT, step).await;
        let once: BTreeSet<&String> = names.iter().collect();
        assert_eq!(once.len(), names.len(), "a name came twice");
        let stays = once.iter().filter(|name| name.starts_with("stays")).count();
        assert_eq!(stays, 300, "with steps of {step}");
    }
    ended.store(true, SeqCst);
    for churn in churns {
        churn.await.unwrap();
    }
    mds.stop().await.unwrap();
}

/// A reader must not report as kept what a power loss could still undo: the number in its reply covers what it saw.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_depends_on_committed_changes_only() {
    let fixture = DirFixture::new();
    let mds = fixture.start().await;
    let client = Arc::new(Client::open(&mds).await);
    let tasks: Vec<_> = (0..8u16)
        .map(|slot| {
            let client = client.clone();
            tokio::spawn(async move {
                for i in 0..100 {
                    let slot_seq = client.next_slot_seq(slot);
                    let op = Client::creation(InodeId::ROOT, &format!("{slot}-{i}"));
                    let made = client.send(Some(slot_seq), op).await;
                    let committed = client.mds.status().await.committed;
                    assert!(
                        made.seq <= committed,
                        "{:?} answered, {committed:?} committed",
                        made.seq
                    );
                    let Ok(MetaReplyBody::Opened(opened)) = made.result else {
                        panic!("{:?}", made.result);
                    };
                    let op = MetaOp::Access {
                        ino: opened.attr.ino,
                        want: AccessMode::READ,
                    };
                    let seen = client.send(None, op).await;
                    assert!(seen.seq >= made.seq);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    mds.stop().await.unwrap();
}
