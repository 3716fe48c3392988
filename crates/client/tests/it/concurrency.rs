//! Many tasks on few files.

use crate::fake::FakeCluster;
use crate::user::{flags, me, name, open_mode};
use bytes::Bytes;
use gupfs_client::{AllocateMode, WriteOptions};
use gupfs_proto::FsError;
use gupfs_proto::meta::{OpenMode, WritePosition};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_read_sees_a_write_whole_or_not_at_all() {
    for seed in 0..20 {
        let cluster = Arc::new(FakeCluster::new(seed).await);
        let file = cluster.create("file").await;
        // Over the border of two components, into three objects.
        let (at, len) = (200 << 10, 200 << 10);
        cluster.write(&file, at, &vec![b'a'; len]).await;
        let mut tasks = Vec::new();
        for letter in b'b'..b'f' {
            let (cluster, file) = (cluster.clone(), file.clone());
            tasks.push(tokio::spawn(async move {
                cluster.write(&file, at, &vec![letter; len]).await
            }));
        }
        for _ in 0..6 {
            let (cluster, file) = (cluster.clone(), file.clone());
            tasks.push(tokio::spawn(async move {
                let read = cluster.read(&file, at, len as u64).await;
                assert!(read.iter().all(|byte| *byte == read[0]), "a torn read");
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_appends_neither_overlap_nor_get_lost() {
    for seed in 0..20 {
        let cluster = Arc::new(FakeCluster::new(seed).await);
        let first = cluster.create("log").await;
        let mut tasks = Vec::new();
        for writer in 0..5u8 {
            let (cluster, ino) = (cluster.clone(), first.ino());
            tasks.push(tokio::spawn(async move {
                let file = cluster.open(ino).await;
                for _ in 0..8 {
                    let record = Bytes::from(vec![writer; 1_000 + 500 * usize::from(writer)]);
                    let len = record.len() as u64;
                    let done = cluster
                        .client
                        .write(&file, WritePosition::End, record, WriteOptions::default())
                        .await
                        .unwrap();
                    assert_eq!(done.written, len);
                    assert!(done.size >= done.offset + len);
                }
                cluster.close(file).await;
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let all = cluster.read(&first, 0, 1 << 20).await;
        for writer in 0..5u8 {
            let of_writer = all.iter().filter(|byte| **byte == writer).count();
            assert_eq!(of_writer, 8 * (1_000 + 500 * usize::from(writer)));
        }
        assert_eq!(cluster.attr(first.ino()).await.size, all.len() as u64);
    }
}

/// Each task has its own range, and no task's bytes appear in another's range, while the file grows, is synced, opened and
/// closed.
#[tokio::test(start_paused = true)]
async fn concurrent_writers_of_disjoint_ranges_keep_their_bytes() {
    const RANGE: u64 = 90_000;
    for seed in 0..25 {
        let cluster = Arc::new(FakeCluster::new(seed).await);
        let first = cluster.create("shared").await;
        let ino = first.ino();
        let mut tasks = Vec::new();
        for number in 0..5u64 {
            let cluster = cluster.clone();
            let dice = cluster.platform.random.fork();
            tasks.push(tokio::spawn(async move {
                let mut expected = vec![0u8; RANGE as usize];
                let mut written = 0;
                let mut file = cluster.open(ino).await;
                for round in 1..20u8 {
                    let at = dice.below(RANGE - 1);
                    let len = 1 + dice.below((RANGE - at).min(30_000));
                    match dice.below(6) {
                        0..3 => {
                            cluster
                                .write(&file, number * RANGE + at, &vec![round; len as usize])
                                .await;
                            expected[at as usize..(at + len) as usize].fill(round);
                            written = written.max(at + len);
                        }
                        3 => {
                            let how = AllocateMode::Punch;
                            let at_file = number * RANGE + at;
                            cluster
                                .client
                                .allocate(&file, how, at_file, len, false)
                                .await
                                .unwrap();
                            expected[at as usize..(at + len) as usize].fill(0);
                        }
                        4 => cluster.client.fsync(&file, false).await.unwrap(),
                        _ => {
                            let old = std::mem::replace(&mut file, cluster.open(ino).await);
                            cluster.close(old).await;
                        }
                    }
                    let size = cluster.attr(ino).await.size;
                    assert!(
                        written == 0 || size >= number * RANGE + written,
                        "the size ran back"
                    );
                    let read = cluster.read(&file, number * RANGE, written).await;
                    assert!(
                        read[..] == expected[..written as usize],
                        "task {number}, round {round}"
                    );
                }
                cluster.close(file).await;
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let before = cluster.read(&first, 0, 1 << 20).await;
        cluster.client.fsync(&first, true).await.unwrap();
        for (object, it) in &cluster.ost.state.lock().objects {
            assert!(it.synced, "{object} was changed while another sync ran");
        }
        cluster.close(first).await;
        assert_eq!(cluster.mds.inode(ino).attr.size, before.len() as u64);
        let again = cluster.open(ino).await;
        assert!(cluster.read(&again, 0, 1 << 20).await == before);
    }
}

#[tokio::test(start_paused = true)]
async fn truncated_bytes_never_come_back_under_writers() {
    for seed in 0..40 {
        let cluster = Arc::new(FakeCluster::new(seed).await);
        let file = cluster.create("file").await;
        cluster.write(&file, 0, &vec![1; 400_000]).await;
        let writer = {
            let (cluster, file) = (cluster.clone(), file.clone());
            tokio::spawn(async move {
                for at in [0u64, 100_000, 200_000, 300_000] {
                    cluster.write(&file, at, &[2; 50_000]).await;
                }
            })
        };
        let closer = {
            let (cluster, ino) = (cluster.clone(), file.ino());
            tokio::spawn(async move {
                for truncate in [false, true, false] {
                    let how = OpenMode {
                        truncate,
                        ..open_mode()
                    };
                    let opened = cluster.client.open(&me(), ino, how, flags()).await.unwrap();
                    cluster.close(opened.file).await;
                }
            })
        };
        writer.await.unwrap();
        closer.await.unwrap();
        let size = cluster.attr(file.ino()).await.size;
        let read = cluster.read(&file, 0, 1 << 20).await;
        assert_eq!(read.len() as u64, size);
        // The truncation removed all ones; twos that were written later may be there.
        assert!(read.iter().all(|byte| *byte != 1), "seed {seed}");
        cluster.close(file).await;
    }
}

/// A GetAttr sent before the last close and answered after it: the server did not know the size yet.
#[tokio::test(start_paused = true)]
async fn attributes_overtaken_by_the_last_close_are_requested_again() {
    let cluster = Arc::new(FakeCluster::new(1).await);
    let mut file = cluster.create("file").await;
    let ino = file.ino();
    for (size, question) in [(10_000, "getattr"), (20_000, "lookup")] {
        cluster.mds.state.lock().delayed.push(question);
        let late = {
            let (cluster, by_name) = (cluster.clone(), question == "lookup");
            tokio::spawn(async move {
                let root = cluster.client.root();
                match by_name {
                    true => cluster
                        .client
                        .lookup(&me(), root, &name("file"))
                        .await
                        .unwrap(),
                    false => cluster.attr(ino).await,
                }
            })
        };
        tokio::time::sleep(Duration::from_millis(1)).await;
        cluster.write(&file, size - 1, &[7]).await;
        cluster.close(file).await;
        assert_eq!(cluster.client.status().open_inodes, 0);
        cluster.mds.release_delayed.notify_one();
        assert_eq!(late.await.unwrap().size, size);
        file = cluster.open(ino).await;
    }
    assert_eq!(cluster.client.counts().asked_again, 2);
}

#[tokio::test(start_paused = true)]
async fn a_truncating_create_empties_a_file_that_is_being_written() {
    for seed in 0..30 {
        let cluster = Arc::new(FakeCluster::new(seed).await);
        let file = cluster.create("file").await;
        cluster.write(&file, 0, &[1; 300_000]).await;
        let (root, the_name) = (cluster.client.root(), name("file"));
        let truncating = OpenMode {
            truncate: true,
            ..open_mode()
        };
        let (make, caller) = (crate::user::create_mode(), me());
        let creating =
            cluster
                .client
                .create(&caller, root, &the_name, make, false, truncating, flags());
        let writing = cluster.try_write(&file, 0, 1_000);
        let (created, written) = tokio::join!(creating, writing);
        let created = created.unwrap();
        assert!(!created.created);
        // A write between the server's truncate and its reply finds no object; that is harmless.
        let missed = |error| matches!(error, FsError::ObjectDamaged { .. });
        assert!(written.is_ok() || written.is_err_and(missed));
        let read = cluster.read(&file, 0, 1 << 20).await;
        assert!(
            read.is_empty() || read == [b'x'; 1_000],
            "{} bytes",
            read.len()
        );
        cluster.close(created.file).await;
        cluster.close(file).await;
        assert_eq!(
            cluster.mds.inode(created.attr.ino).attr.size,
            read.len() as u64
        );
    }
}
