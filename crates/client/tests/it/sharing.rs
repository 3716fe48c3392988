//! Several clients on the same files: they see one state at every moment, as processes on one host would.

use crate::shared_cluster::{SharedCluster, append, pause};
use crate::user::{User, create_mode, flags, me, name, open_mode};
use bytes::Bytes;
use gupfs_client::{AllocateMode, SeekTo, SessionOptions, WriteOptions};
use gupfs_proto::meta::{self, AccessMode, OpenMode, SetAttr, SetTime, WritePosition};
use gupfs_proto::{FsError, InodeId, Timestamp};
use gupfs_rpc::{Peer, Service};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

async fn truncate(user: &User, ino: InodeId, to: u64) {
    let cut = user.client.truncate(&me(), ino, to, true, false).await;
    assert_eq!(cut.unwrap().size, to);
}

/// Long enough for background tasks.
async fn long_pause() {
    tokio::time::sleep(Duration::from_secs(10)).await;
}

#[tokio::test(start_paused = true)]
async fn alternating_appends_neither_overlap_nor_get_lost() {
    let cluster = SharedCluster::new(1, 2).await;
    let (one, two) = cluster.clients();
    let file1 = one.create("log").await;
    let file2 = two.open(file1.ino()).await;
    let mut expected = Vec::new();
    for number in 0..60u8 {
        let record = vec![number; 700];
        let (user, file) = if number % 2 == 0 {
            (one, &file1)
        } else {
            (two, &file2)
        };
        assert_eq!(append(user, file, &record).await, expected.len() as u64);
        expected.extend(record);
    }
    assert_eq!(one.read(&file1, 0, 1 << 20).await, expected);
    assert_eq!(two.read(&file2, 0, 1 << 20).await, expected);
}

#[tokio::test(start_paused = true)]
async fn appends_at_once_neither_overlap_nor_get_lost() {
    let cluster = SharedCluster::new(2, 3).await;
    let file = cluster.users[0].create("log").await;
    let mut writers = Vec::new();
    for (number, user) in cluster.users.iter().enumerate() {
        let (user, ino) = (user.clone(), file.ino());
        writers.push(tokio::spawn(async move {
            let file = user.open(ino).await;
            for round in 0..30u8 {
                append(&user, &file, &[number as u8 * 64 + round; 500]).await;
            }
            user.close(file).await;
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let all = cluster.users[0].read(&file, 0, 1 << 20).await;
    assert_eq!(all.len(), 3 * 30 * 500);
    let mut next = [0u8; 3];
    for record in all.chunks(500) {
        let (writer, round) = (record[0] / 64, record[0] % 64);
        assert!(record.iter().all(|byte| *byte == record[0]));
        assert_eq!(round, next[usize::from(writer)]);
        next[usize::from(writer)] += 1;
    }
    assert_eq!(next, [30; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_client_sees_the_size_while_another_writes() {
    let cluster = SharedCluster::new(3, 2).await;
    let (one, two) = cluster.clients();
    let file = one.create("file").await;
    let ino = file.ino();
    for step in 1..20u64 {
        one.platform.clock.advance(Duration::from_millis(1));
        one.write(&file, (step - 1) * 9_000, &[1; 9_000]).await;
        let (attr1, attr2) = (one.attr(ino).await, two.attr(ino).await);
        assert_eq!(attr2.size, step * 9_000);
        assert_eq!((attr1.size, attr1.mtime), (attr2.size, attr2.mtime));
        let name = name("file");
        let found = two.client.lookup(&me(), two.client.root(), &name).await;
        assert_eq!(found.unwrap().size, step * 9_000);
    }
    // Client `one` had the write lease all the time.
    assert_eq!(one.client.status().leased_inodes, 1);
}

#[tokio::test(start_paused = true)]
async fn a_read_sees_another_clients_writes_wherever_the_bytes_lie() {
    let cluster = SharedCluster::new(4, 2).await;
    let (one, two) = cluster.clients();
    let file1 = one.create("file").await;
    let file2 = two.open(file1.ino()).await;
    let all = 2 << 20;
    one.write(&file1, 0, b"small").await;
    assert_eq!(two.read(&file2, 0, all).await, b"small");
    two.write(&file2, 2, b"ALL of it").await;
    assert_eq!(one.read(&file1, 0, all).await, b"smALL of it");
    // The inline data moves to an object.
    one.write(&file1, 11, &[7; 100_000]).await;
    let expected = [b"smALL of it".as_slice(), &[7; 100_000]].concat();
    assert_eq!(two.read(&file2, 0, all).await, expected);
    // Into objects that did not exist before.
    one.write(&file1, 300_000, &[8; 100_000]).await;
    assert_eq!(
        two.read(&file2, 299_990, 20).await,
        [[0; 10], [8; 10]].concat()
    );
    // Over bytes that the other client has read.
    one.write(&file1, 50_000, &[9; 10]).await;
    assert_eq!(two.read(&file2, 49_999, 3).await, [7, 9, 9]);
    truncate(one, file1.ino(), 0).await;
    assert_eq!(two.read(&file2, 0, all).await, b"");
    one.write(&file1, 3, b"again").await;
    assert_eq!(two.read(&file2, 0, all).await, b"\0\0\0again");
    truncate(two, file1.ino(), 60_000).await;
    one.write(&file1, 70_000, b"end").await;
    let expected = [b"\0\0\0again".as_slice(), &[0; 69_992], b"end"].concat();
    assert_eq!(two.read(&file2, 0, all).await, expected);
    assert_eq!(one.read(&file1, 0, all).await, expected);
}

#[tokio::test(start_paused = true)]
async fn opening_with_truncation_truncates_a_file_leased_to_another_client() {
    let cluster = SharedCluster::new(5, 2).await;
    let (one, two) = cluster.clients();
    let file1 = one.create("file").await;
    for by_name in [false, true] {
        one.write(&file1, 0, &[1; 200_000]).await;
        let how = OpenMode {
            truncate: true,
            ..open_mode()
        };
        let opened = if by_name {
            let (root, name) = (two.client.root(), name("file"));
            let client = &two.client;
            let found = client
                .create(&me(), root, &name, create_mode(), false, how, flags())
                .await;
            found.unwrap()
        } else {
            two.client
                .open(&me(), file1.ino(), how, flags())
                .await
                .unwrap()
        };
        assert_eq!(opened.attr.size, 0);
        assert_eq!(one.read(&file1, 0, 10).await, b"");
        assert_eq!(one.attr(file1.ino()).await.size, 0);
        one.write(&file1, 100_000, b"x").await;
        let read = two.read(&opened.file, 0, 1 << 20).await;
        assert_eq!((read.len(), read[0], read[100_000]), (100_001, 0, b'x'));
        two.close(opened.file).await;
    }
}

#[tokio::test(start_paused = true)]
async fn times_set_by_one_client_are_not_undone_by_earlier_writes_of_another() {
    let cluster = SharedCluster::new(6, 2).await;
    let (one, two) = cluster.clients();
    let file1 = one.create("file").await;
    one.write(&file1, 0, &[1; 10_000]).await;
    let to = Timestamp::new(77, 0);
    let set = SetAttr {
        mtime: Some(SetTime::To(to)),
        ..SetAttr::default()
    };
    two.client.setattr(&me(), file1.ino(), set).await.unwrap();
    assert_eq!(one.attr(file1.ino()).await.mtime, to);
    one.client.fsync(&file1, false).await.unwrap();
    one.close(file1.clone()).await;
    let attr = two.attr(file1.ino()).await;
    assert_eq!((attr.mtime, attr.size), (to, 10_000));
}

#[tokio::test(start_paused = true)]
async fn an_unprivileged_write_clears_setuid_that_another_client_set_meanwhile() {
    let cluster = SharedCluster::new(7, 2).await;
    let (one, two) = cluster.clients();
    let file1 = one.create("program").await;
    let write = async |at: u64, kill_privileges: bool| {
        let how = WriteOptions {
            kill_privileges,
            ..WriteOptions::default()
        };
        let data = Bytes::from(vec![1; 10_000]);
        let done = one
            .client
            .write(&file1, WritePosition::Offset(at), data, how);
        done.await.unwrap();
    };
    write(0, true).await;
    let set = SetAttr {
        mode: Some(0o4755),
        ..SetAttr::default()
    };
    two.client.setattr(&me(), file1.ino(), set).await.unwrap();
    assert_eq!(one.attr(file1.ino()).await.mode.0, 0o4755);
    write(400, false).await;
    assert_eq!(two.attr(file1.ino()).await.mode.0, 0o4755);
    write(500, true).await;
    assert_eq!(two.attr(file1.ino()).await.mode.0, 0o755);
}

#[tokio::test(start_paused = true)]
async fn seek_allocate_and_copy_see_another_clients_writes() {
    let cluster = SharedCluster::new(8, 2).await;
    let (one, two) = cluster.clients();
    let file1 = one.create("file").await;
    let file2 = two.open(file1.ino()).await;
    let other = two.create("copy").await;
    one.write(&file1, 0, &[1; 8_192]).await;
    one.write(&file1, 400_000, &[2; 1_000]).await;
    let found = two
        .client
        .seek(&file2, 100_000, SeekTo::Data)
        .await
        .unwrap();
    assert!((393_216..=400_000).contains(&found), "{found}");
    let how = AllocateMode::Zero { keep_size: false };
    two.client
        .allocate(&file2, how, 0, 500_000, false)
        .await
        .unwrap();
    assert_eq!(one.attr(file1.ino()).await.size, 500_000);
    assert_eq!(one.read(&file1, 0, 1).await, [0]);
    one.write(&file1, 500_000, b"tail").await;
    let copied =
        two.client
            .copy_range((&file2, 499_999), (&other, 0), 100, WriteOptions::default());
    assert_eq!(copied.await, Ok(5));
    assert_eq!(two.read(&other, 0, 10).await, b"\0tail");
}

#[tokio::test(start_paused = true)]
async fn a_file_removed_by_another_client_exists_until_its_last_close() {
    let cluster = SharedCluster::new(9, 3).await;
    let (one, two) = cluster.clients();
    let root = one.client.root();
    let file1 = one.create("file").await;
    one.write(&file1, 0, &[1; 300_000]).await;
    let ino = file1.ino();
    let file2 = two.open(ino).await;
    two.client.unlink(&me(), root, &name("file")).await.unwrap();
    two.client.forget([(ino, 1)]);
    let refused = cluster.users[2]
        .client
        .open(&me(), ino, open_mode(), flags())
        .await;
    assert_eq!(refused.err(), Some(FsError::Stale));
    // Before the server has asked every session, and after.
    for round in 0..2u8 {
        one.write(&file1, 299_999, &[round; 2]).await;
        assert_eq!(one.attr(ino).await.nlink, 0);
        assert_eq!(two.read(&file2, 299_998, 9).await, [1, round, round]);
        long_pause().await;
    }
    two.close(file2).await;
    two.client.forget([(ino, 1)]);
    long_pause().await;
    assert_eq!(one.read(&file1, 0, 2).await, [1, 1], "it is open here");
    truncate(one, ino, 5).await;
    assert!(cluster.disks.objects() > 0);
    one.close(file1).await;
    long_pause().await;
    assert_eq!(cluster.disks.objects(), 0);
    let gone = one.client.getattr(&me(), ino).await;
    assert_eq!(gone, Err(FsError::Stale));
    let space = one.client.statfs(&me()).await.unwrap();
    assert_eq!((space.inodes, space.purging), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_file_replaced_by_another_clients_rename_stays_readable() {
    let cluster = SharedCluster::new(10, 2).await;
    let (one, two) = cluster.clients();
    let root = one.client.root();
    let old = one.create("name").await;
    one.write(&old, 0, &[1; 100_000]).await;
    let new = two.create("new").await;
    two.write(&new, 0, &[2; 50_000]).await;
    let how = meta::RenameMode::Replace;
    let (from, to) = (name("new"), name("name"));
    let moved = two
        .client
        .rename(&me(), (root, &from), (root, &to), how)
        .await;
    assert_eq!(moved.unwrap().victim, Some(old.ino()));
    two.client.forget([(old.ino(), 9)]);
    let found = one.client.lookup(&me(), root, &to).await.unwrap();
    assert_eq!((found.ino, found.size), (new.ino(), 50_000));
    long_pause().await;
    assert_eq!(one.read(&old, 99_999, 5).await, [1]);
    one.client.forget([(old.ino(), 9)]);
    one.close(old).await;
    long_pause().await;
    let space = one.client.statfs(&me()).await.unwrap();
    assert_eq!((space.inodes, space.purging), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_removed_file_that_is_open_nowhere_is_purged_at_once() {
    let cluster = SharedCluster::new(11, 3).await;
    let (one, two) = cluster.clients();
    for number in 0..50 {
        let file = one.create(&format!("f{number}")).await;
        let ino = file.ino();
        one.write(&file, 0, &[1; 10_000]).await;
        one.close(file).await;
        one.client.forget([(ino, 1)]);
    }
    for number in 0..50 {
        let name = name(&format!("f{number}"));
        let removed = two.client.unlink(&me(), two.client.root(), &name).await;
        assert!(removed.unwrap().is_orphan);
    }
    pause().await;
    assert_eq!(cluster.disks.objects(), 0);
}

#[tokio::test(start_paused = true)]
async fn fsync_makes_another_clients_writes_durable() {
    for seed in 16..22 {
        let cluster = SharedCluster::new(seed, 2).await;
        let (one, two) = cluster.clients();
        let file1 = one.create("file").await;
        let opened = OpenMode {
            access: AccessMode::READ,
            ..open_mode()
        };
        let file2 = two.client.open(&me(), file1.ino(), opened, flags()).await;
        let file2 = file2.unwrap().file;
        one.write(&file1, 0, &[3; 300_000]).await;
        two.client.fsync(&file2, seed % 2 == 0).await.unwrap();
        let SharedCluster { disks, servers, .. } = cluster;
        disks.power_loss_of(servers).await;
        let servers = disks.servers(|_| {}).await;
        let user = servers.connect(SessionOptions::default()).await;
        let file = user.open(file2.ino()).await;
        assert!(user.read(&file, 0, 1 << 20).await == [3; 300_000]);
    }
}

/// Registers in one file: each has one writer, and every reader sees the last write, or one that is in progress.
#[tokio::test(start_paused = true)]
async fn every_client_reads_a_write_once_it_is_answered() {
    const SLOTS: u64 = 6;
    const APART: u64 = 70_000;
    for seed in 40..50 {
        let cluster = SharedCluster::new(seed, 3).await;
        let file = cluster.users[0].create("registers").await;
        let ino = file.ino();
        let written: Arc<[AtomicU64; SLOTS as usize]> = Arc::default();
        let mut tasks = Vec::new();
        for task in 0..9u64 {
            let user = cluster.users[task as usize % 3].clone();
            let written = written.clone();
            tasks.push(tokio::spawn(async move {
                let file = user.open(ino).await;
                let dice = user.platform.random.fork();
                for round in 1..40u64 {
                    let slot = if task < SLOTS {
                        task
                    } else {
                        dice.below(SLOTS)
                    };
                    if task < SLOTS && round % 2 == 0 {
                        user.write(&file, slot * APART, &round.to_be_bytes()).await;
                        written[slot as usize].store(round, SeqCst);
                        continue;
                    }
                    let slot = dice.below(SLOTS);
                    let before = written[slot as usize].load(SeqCst);
                    let size = user.attr(ino).await.size;
                    assert!(before == 0 || size >= slot * APART + 8, "size {size}");
                    let read = user.read(&file, slot * APART, 8).await;
                    let mut bytes = [0; 8];
                    bytes[..read.len()].copy_from_slice(&read);
                    let value = u64::from_be_bytes(bytes);
                    let after = written[slot as usize].load(SeqCst);
                    assert!(
                        (before..=after + 2).contains(&value),
                        "{value} in {before}..{after}"
                    );
                }
                user.close(file).await;
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    }
}

/// A metadata peer that delays its replies to GetAttr by one second, and grants no leases that would answer instead.
struct DelayedGetAttr(Peer<meta::MetaRequest, meta::MetaReply>);

impl Service<meta::MetaRequest, meta::MetaReply> for DelayedGetAttr {
    async fn handle(self: Arc<Self>, request: meta::MetaRequest) -> meta::MetaReply {
        let is_late = matches!(request.op, meta::MetaOp::GetAttr { .. });
        if request.op == meta::MetaOp::AcceptLeases {
            return gupfs_proto::wire::ReplyMessage::from_error(FsError::NotSupported);
        }
        let reply = self.0.call(request).await;
        if is_late {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        reply
    }
}

/// The server replied while this client had the write lease, so the reply lacks its writes; then the lease was released.
#[tokio::test(start_paused = true)]
async fn a_stat_is_no_older_than_the_writes_before_it() {
    let cluster = SharedCluster::new(60, 1).await;
    let late = DelayedGetAttr(Peer::local(cluster.servers.mds.clone()));
    let one = cluster.client_by(Peer::local(Arc::new(late))).await;
    let two = &cluster.users[0];
    let file1 = one.create("log").await;
    let file2 = two.open(file1.ino()).await;
    one.write(&file1, 0, &[1; 9_000]).await;
    let (user, ino) = (one.clone(), file1.ino());
    let stat = tokio::spawn(async move { user.attr(ino).await.size });
    pause().await;
    append(two, &file2, &[2; 10]).await;
    assert_eq!(one.client.status().leased_inodes, 0);
    assert_eq!(stat.await.unwrap(), 9_010);
}
