//! Many tasks in few files.

use crate::fake::Site;
use crate::user::{flags, how, me, name};
use bytes::Bytes;
use gupfs_client::{AllocateHow, WriteHow};
use gupfs_proto::Refusal;
use gupfs_proto::meta::{OpenHow, WriteAt};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_read_sees_a_write_whole_or_not_at_all() {
    for seed in 0..20 {
        let site = Arc::new(Site::new(seed).await);
        let file = site.create("file").await;
        // Over the border of two components, into three objects.
        let (at, len) = (200 << 10, 200 << 10);
        site.write(&file, at, &vec![b'a'; len]).await;
        let mut tasks = Vec::new();
        for letter in b'b'..b'f' {
            let (site, file) = (site.clone(), file.clone());
            tasks.push(tokio::spawn(async move {
                site.write(&file, at, &vec![letter; len]).await
            }));
        }
        for _ in 0..6 {
            let (site, file) = (site.clone(), file.clone());
            tasks.push(tokio::spawn(async move {
                let read = site.read(&file, at, len as u64).await;
                assert!(read.iter().all(|byte| *byte == read[0]), "a torn read");
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_append_is_lost_or_lies_over_another() {
    for seed in 0..20 {
        let site = Arc::new(Site::new(seed).await);
        let first = site.create("log").await;
        let mut tasks = Vec::new();
        for writer in 0..5u8 {
            let (site, ino) = (site.clone(), first.ino());
            tasks.push(tokio::spawn(async move {
                let file = site.open(ino).await;
                for _ in 0..8 {
                    let record = Bytes::from(vec![writer; 1_000 + 500 * usize::from(writer)]);
                    let len = record.len() as u64;
                    let done = site
                        .client
                        .write(&file, WriteAt::End, record, WriteHow::default())
                        .await
                        .unwrap();
                    assert_eq!(done.written, len);
                    assert!(done.size >= done.offset + len);
                }
                site.close(file).await;
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let all = site.read(&first, 0, 1 << 20).await;
        for writer in 0..5u8 {
            let theirs = all.iter().filter(|byte| **byte == writer).count();
            assert_eq!(theirs, 8 * (1_000 + 500 * usize::from(writer)));
        }
        assert_eq!(site.attr(first.ino()).await.size, all.len() as u64);
    }
}

/// Each task has a range of its own, and nobody's bytes get into another's, while the file grows, is synced, opened
/// and closed.
#[tokio::test(start_paused = true)]
async fn neighbours_in_one_file_keep_their_bytes() {
    const RANGE: u64 = 90_000;
    for seed in 0..25 {
        let site = Arc::new(Site::new(seed).await);
        let first = site.create("shared").await;
        let ino = first.ino();
        let mut tasks = Vec::new();
        for number in 0..5u64 {
            let site = site.clone();
            let dice = site.platform.dice.fork();
            tasks.push(tokio::spawn(async move {
                let mut mine = vec![0u8; RANGE as usize];
                let mut written = 0;
                let mut file = site.open(ino).await;
                for round in 1..20u8 {
                    let at = dice.below(RANGE - 1);
                    let len = 1 + dice.below((RANGE - at).min(30_000));
                    match dice.below(6) {
                        0..3 => {
                            site.write(&file, number * RANGE + at, &vec![round; len as usize])
                                .await;
                            mine[at as usize..(at + len) as usize].fill(round);
                            written = written.max(at + len);
                        }
                        3 => {
                            let how = AllocateHow::Punch;
                            let at_file = number * RANGE + at;
                            site.client
                                .allocate(&file, how, at_file, len, false)
                                .await
                                .unwrap();
                            mine[at as usize..(at + len) as usize].fill(0);
                        }
                        4 => site.client.fsync(&file, false).await.unwrap(),
                        _ => {
                            let old = std::mem::replace(&mut file, site.open(ino).await);
                            site.close(old).await;
                        }
                    }
                    let size = site.attr(ino).await.size;
                    assert!(
                        written == 0 || size >= number * RANGE + written,
                        "the size ran back"
                    );
                    let read = site.read(&file, number * RANGE, written).await;
                    assert!(
                        read[..] == mine[..written as usize],
                        "task {number}, round {round}"
                    );
                }
                site.close(file).await;
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let before = site.read(&first, 0, 1 << 20).await;
        site.client.fsync(&first, true).await.unwrap();
        for (object, it) in &site.ost.state.lock().objects {
            assert!(it.synced, "{object} was changed while another sync ran");
        }
        site.close(first).await;
        assert_eq!(site.mds.inode(ino).attr.size, before.len() as u64);
        let again = site.open(ino).await;
        assert!(site.read(&again, 0, 1 << 20).await == before);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_cut_off_under_writers_never_comes_back() {
    for seed in 0..40 {
        let site = Arc::new(Site::new(seed).await);
        let file = site.create("file").await;
        site.write(&file, 0, &vec![1; 400_000]).await;
        let writer = {
            let (site, file) = (site.clone(), file.clone());
            tokio::spawn(async move {
                for at in [0u64, 100_000, 200_000, 300_000] {
                    site.write(&file, at, &[2; 50_000]).await;
                }
            })
        };
        let closer = {
            let (site, ino) = (site.clone(), file.ino());
            tokio::spawn(async move {
                for truncate in [false, true, false] {
                    let how = OpenHow { truncate, ..how() };
                    let opened = site.client.open(&me(), ino, how, flags()).await.unwrap();
                    site.close(opened.file).await;
                }
            })
        };
        writer.await.unwrap();
        closer.await.unwrap();
        let size = site.attr(file.ino()).await.size;
        let read = site.read(&file, 0, 1 << 20).await;
        assert_eq!(read.len() as u64, size);
        // All ones went with the truncation, unless the twos came later.
        assert!(read.iter().all(|byte| *byte != 1), "seed {seed}");
        site.close(file).await;
    }
}

/// stat() that was asked before the last close and answered after it: the server had not heard of the size.
#[tokio::test(start_paused = true)]
async fn attributes_that_passed_the_end_of_writing_are_asked_again() {
    let site = Arc::new(Site::new(1).await);
    let mut file = site.create("file").await;
    let ino = file.ino();
    for (size, question) in [(10_000, "getattr"), (20_000, "lookup")] {
        site.mds.state.lock().held_back.push(question);
        let late = {
            let (site, by_name) = (site.clone(), question == "lookup");
            tokio::spawn(async move {
                let root = site.client.root();
                match by_name {
                    true => site
                        .client
                        .lookup(&me(), root, &name("file"))
                        .await
                        .unwrap(),
                    false => site.attr(ino).await,
                }
            })
        };
        tokio::time::sleep(Duration::from_millis(1)).await;
        site.write(&file, size - 1, &[7]).await;
        site.close(file).await;
        assert_eq!(site.client.status().open_inodes, 0);
        site.mds.let_go.notify_one();
        assert_eq!(late.await.unwrap().size, size);
        file = site.open(ino).await;
    }
    assert_eq!(site.client.counted().asked_again, 2);
}

#[tokio::test(start_paused = true)]
async fn a_create_that_cuts_a_file_others_write_leaves_it_empty() {
    for seed in 0..30 {
        let site = Arc::new(Site::new(seed).await);
        let file = site.create("file").await;
        site.write(&file, 0, &[1; 300_000]).await;
        let (root, the_name) = (site.client.root(), name("file"));
        let truncating = OpenHow {
            truncate: true,
            ..how()
        };
        let (make, caller) = (crate::user::make(), me());
        let creating =
            site.client
                .create(&caller, root, &the_name, make, false, truncating, flags());
        let writing = site.try_write(&file, 0, 1_000);
        let (created, written) = tokio::join!(creating, writing);
        let created = created.unwrap();
        assert!(!created.created);
        // A write between the server's cut and our hearing of it meets no object; it does no harm.
        let missed = |refusal| matches!(refusal, Refusal::ObjectDamaged { .. });
        assert!(written.is_ok() || written.is_err_and(missed));
        let read = site.read(&file, 0, 1 << 20).await;
        assert!(
            read.is_empty() || read == [b'x'; 1_000],
            "{} bytes",
            read.len()
        );
        site.close(created.file).await;
        site.close(file).await;
        assert_eq!(
            site.mds.inode(created.attr.ino).attr.size,
            read.len() as u64
        );
    }
}
