//! Several clients write one file at the same time, each directly to the objects.

use crate::shared_cluster::{SharedCluster, append, pause};
use crate::user::{User, me};
use bytes::Bytes;
use gupfs_client::{AllocateMode, Client, OpenFile, SessionOptions, WriteOptions};
use gupfs_mds::Mds;
use gupfs_proto::InodeId;
use gupfs_proto::callback::{CallbackReply, CallbackRequest};
use gupfs_proto::meta::{MetaOp, MetaReply, MetaRequest, SetAttr, SetTime, WritePosition};
use gupfs_rpc::{Peer, Service};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::sync::Notify;

const RECORD: usize = 47_008;

/// A file that the first two clients write by turns, so that both have concurrent leases.
async fn written_by_both(cluster: &SharedCluster) -> [Arc<OpenFile>; 2] {
    let (one, two) = cluster.clients();
    let file = one.create("shared").await;
    let files = [two.open(file.ino()).await, file];
    for round in 0..4 {
        let user = [two, one][round % 2];
        user.write(&files[round % 2], (round * RECORD) as u64, &[9; RECORD])
            .await;
    }
    assert_eq!(concurrent(cluster), [1, 1]);
    let [two, one] = files;
    [one, two]
}

/// The number of concurrent leases of the first two clients.
fn concurrent(cluster: &SharedCluster) -> [usize; 2] {
    let (one, two) = cluster.clients();
    [one, two].map(|user| user.client.status().concurrently_leased_inodes)
}

async fn set_len(user: &User, ino: InodeId, to: u64) {
    let done = user.client.truncate(&me(), ino, to, true, false).await;
    assert_eq!(done.unwrap().size, to);
}

#[tokio::test(start_paused = true)]
async fn records_of_two_clients_in_one_file_all_arrive() {
    let cluster = SharedCluster::new(1, 3).await;
    let (one, two) = cluster.clients();
    let files = written_by_both(&cluster).await;
    let mut writers = Vec::new();
    for (number, (user, file)) in [(one, &files[0]), (two, &files[1])].into_iter().enumerate() {
        let (user, file) = (user.clone(), file.clone());
        writers.push(tokio::spawn(async move {
            for round in 0..40 {
                let record = 2 * round + number;
                user.write(&file, (record * RECORD) as u64, &[record as u8; RECORD])
                    .await;
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(concurrent(&cluster), [1, 1]);
    // Each of them, and a client that only reads, sees all of it.
    let three = &cluster.users[2];
    let file3 = three.open(files[0].ino()).await;
    for (user, file) in [(one, &files[0]), (two, &files[1]), (three, &file3)] {
        let len = (80 * RECORD) as u64;
        assert_eq!(user.attr(file.ino()).await.size, len);
        let all = user.read(file, 0, 2 * len).await;
        assert_eq!(all.len() as u64, len);
        for (number, record) in all.chunks(RECORD).enumerate() {
            assert!(record.iter().all(|byte| *byte == number as u8), "{number}");
        }
    }
    assert_eq!(concurrent(&cluster), [1, 1], "reading takes no lease");
}

#[tokio::test(start_paused = true)]
async fn every_client_sees_each_write_and_the_size_at_once() {
    let cluster = SharedCluster::new(2, 2).await;
    let (one, two) = cluster.clients();
    let files = written_by_both(&cluster).await;
    let ino = files[0].ino();
    let mut end = 4 * RECORD as u64;
    for round in 0..30_u8 {
        let writer = usize::from(round) % 2;
        // Backwards and forwards: the writer's own end is not always the file's.
        let at = match round % 3 {
            0 => 100,
            _ => end + 5_000,
        };
        let user = [one, two][writer];
        user.platform.clock.advance(Duration::from_millis(3));
        user.write(&files[writer], at, &[round; 3_000]).await;
        end = end.max(at + 3_000);
        let attrs = [one.attr(ino).await, two.attr(ino).await];
        assert_eq!([attrs[0].size, attrs[1].size], [end; 2], "{round}");
        assert_eq!(attrs[0].mtime, attrs[1].mtime, "{round}");
        let reads = [
            one.read(&files[0], at, 3_000).await,
            two.read(&files[1], at, 3_000).await,
        ];
        assert!(reads == [vec![round; 3_000], vec![round; 3_000]]);
    }
    assert_eq!(concurrent(&cluster), [1, 1]);
}

/// Holds back one message: after the server has answered it, or before a client gets it.
struct Gate<S> {
    inner: Arc<S>,
    is_closed: AtomicBool,
    arrived: Notify,
    opened: Notify,
}

impl<S> Gate<S> {
    fn new(inner: Arc<S>) -> Arc<Gate<S>> {
        Arc::new(Gate {
            inner,
            is_closed: AtomicBool::new(false),
            arrived: Notify::new(),
            opened: Notify::new(),
        })
    }

    fn close(&self) {
        self.is_closed.store(true, SeqCst);
    }

    async fn pass(&self, is_meant: bool) {
        if is_meant && self.is_closed.swap(false, SeqCst) {
            self.arrived.notify_one();
            self.opened.notified().await;
        }
    }
}

impl Service<MetaRequest, MetaReply> for Gate<Mds> {
    async fn handle(self: Arc<Self>, request: MetaRequest) -> MetaReply {
        let is_meant = matches!(request.op, MetaOp::GetAttr { .. });
        let reply = self.inner.clone().handle(request).await;
        self.pass(is_meant).await;
        reply
    }
}

impl Service<CallbackRequest, CallbackReply> for Gate<Client> {
    async fn handle(self: Arc<Self>, request: CallbackRequest) -> CallbackReply {
        let is_meant = matches!(request, CallbackRequest::Glimpse { .. });
        self.pass(is_meant).await;
        self.inner.clone().handle(request).await
    }
}

/// A write to the largest end has returned before a write to a smaller one begins. A size with the second one and without the first was never
/// the file's. Here the client that asks has made the second write itself, after the other one was asked.
#[tokio::test(start_paused = true)]
async fn a_size_has_no_own_write_without_those_of_others_before_it() {
    let cluster = SharedCluster::new(11, 1).await;
    let gate = Gate::new(cluster.servers.mds.clone());
    let (one, two) = (
        cluster.users[0].clone(),
        cluster.client_by(Peer::local(gate.clone())).await,
    );
    let one_file = one.create("shared").await;
    let ino = one_file.ino();
    let two_file = two.open(ino).await;
    for round in 0..4 {
        let (user, file) = [(&two, &two_file), (&one, &one_file)][round % 2];
        user.write(file, (round * RECORD) as u64, &[9; RECORD])
            .await;
    }
    let mut end = 4 * RECORD as u64;
    for _ in 0..3 {
        gate.close();
        let looking = {
            let user = two.clone();
            tokio::spawn(async move { user.attr(ino).await.size })
        };
        gate.arrived.notified().await;
        one.write(&one_file, end + 7_000, &[1; 1_000]).await;
        two.write(&two_file, end, &[2; 1_000]).await;
        gate.opened.notify_one();
        assert_eq!(looking.await.unwrap(), end + 8_000);
        end += 8_000;
    }
    let leases = [&one, &two].map(|user| user.client.status().concurrently_leased_inodes);
    assert_eq!(leases, [1, 1]);
}

/// The same where two others have written: one was asked before its write, and the other one after both.
#[tokio::test(start_paused = true)]
async fn a_size_is_not_made_of_reports_of_different_moments() {
    let cluster = SharedCluster::new(12, 3).await;
    let (one, two) = cluster.clients();
    let three = &cluster.users[2];
    let [one_file, two_file] = written_by_both(&cluster).await;
    let ino = one_file.ino();
    two.write(&two_file, 0, &[1; RECORD]).await;
    let gate = Gate::new(two.client.clone());
    let session = two.client.session();
    cluster
        .servers
        .mds
        .attach(session, Peer::local(gate.clone()));
    let end = three.attr(ino).await.size;
    gate.close();
    let looking = {
        let user = three.clone();
        tokio::spawn(async move { user.attr(ino).await.size })
    };
    gate.arrived.notified().await;
    pause().await;
    one.write(&one_file, end + 7_000, &[1; 1_000]).await;
    two.write(&two_file, end, &[2; 1_000]).await;
    gate.opened.notify_one();
    assert_eq!(looking.await.unwrap(), end + 8_000);
    assert_eq!(concurrent(&cluster), [1, 1]);
}

/// The last writer has its concurrent lease for a while, and the server grants it a lease to read, too. Its writes lock their own range only,
/// so a read beside one that moves the end of the file would keep the former end.
#[tokio::test(start_paused = true)]
async fn a_client_with_a_concurrent_lease_keeps_nothing_that_it_reads() {
    let cluster = SharedCluster::new(7, 2).await;
    let (one, two) = cluster.clients();
    let [file1, file2] = written_by_both(&cluster).await;
    two.close(file2).await;
    let mut end = 4 * RECORD as u64;
    for _ in 0..5 {
        one.write(&file1, end + 5_000, &[7; 3_000]).await;
        end += 8_000;
        let tail = (end - 20_000) / 4096 * 4096;
        for _ in 0..3 {
            let read = one.read(&file1, tail, 65_536).await;
            assert_eq!(read.len() as u64, end - tail);
        }
    }
    assert_eq!(concurrent(&cluster), [1, 0]);
    assert_eq!(one.client.status().counts.cached_reads, 0);
}

#[tokio::test(start_paused = true)]
async fn the_last_writer_has_the_file_for_itself_again() {
    let cluster = SharedCluster::new(3, 2).await;
    let (one, two) = cluster.clients();
    let [file1, file2] = written_by_both(&cluster).await;
    let ino = file1.ino();
    two.close(file2).await;
    for round in 0..5 {
        one.write(&file1, 0, &[round; 10]).await;
        one.platform.clock.advance(Duration::from_millis(300));
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let status = one.client.status();
    assert_eq!(
        (status.leased_inodes, status.concurrently_leased_inodes),
        (1, 0)
    );
    assert_eq!(
        one.read(&file1, 0, 11).await,
        [[4; 10].as_slice(), &[9]].concat()
    );
    assert_eq!(two.attr(ino).await.size, 4 * RECORD as u64);
    one.close(file1).await;
    assert_eq!(one.client.status().leased_inodes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stops_writing_releases_its_lease_although_the_file_stays_open() {
    let cluster = SharedCluster::new(4, 2).await;
    let (one, two) = cluster.clients();
    let [file1, file2] = written_by_both(&cluster).await;
    for round in 0..40 {
        two.write(&file2, 5_000, &[round; 10]).await;
        for user in [one, two] {
            user.platform.clock.advance(Duration::from_millis(500));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(one.client.status().leased_inodes, 0);
    let status = two.client.status();
    assert_eq!(
        (status.leased_inodes, status.concurrently_leased_inodes),
        (1, 0)
    );
    one.write(&file1, 0, b"again").await;
    assert_eq!(two.read(&file2, 0, 5).await, b"again");
}

/// What needs the file alone takes the leases of all, from a client that has one itself, too: both at once, neither waits for the other.
#[tokio::test(start_paused = true)]
async fn changes_that_need_the_file_alone_do_not_wait_for_each_other() {
    let cluster = SharedCluster::new(5, 2).await;
    let (one, two) = cluster.clients();
    let files = written_by_both(&cluster).await;
    let ino = files[0].ino();
    let set_times = SetAttr {
        mtime: Some(SetTime::Now),
        ..SetAttr::default()
    };
    for round in 0..12_u64 {
        let mut tasks = Vec::new();
        for (number, user) in [one, two].into_iter().enumerate() {
            let (user, file) = (user.clone(), files[number].clone());
            tasks.push(tokio::spawn(async move {
                let number = number as u64;
                user.write(&file, number * 100, &[7; 100]).await;
                user.write(&file, number * 100, &[8; 100]).await;
                match (round + number) % 4 {
                    0 => set_len(&user, ino, 1_000 + round).await,
                    1 => {
                        append(&user, &file, b"end").await;
                    }
                    2 => {
                        user.client.setattr(&me(), ino, set_times).await.unwrap();
                    }
                    _ => {
                        let punch = AllocateMode::Punch;
                        let (at, len) = (500, 100);
                        let done = user.client.allocate(&file, punch, at, len, false);
                        done.await.unwrap();
                    }
                }
            }));
        }
        for task in tasks {
            let ended = tokio::time::timeout(Duration::from_secs(15), task).await;
            ended.expect("the two wait for each other").unwrap();
        }
        let attrs = [one.attr(ino).await, two.attr(ino).await];
        assert_eq!(attrs[0].size, attrs[1].size);
        assert_eq!(two.read(&files[1], 0, 200).await, [8; 200]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_truncated_file_stays_short_whatever_its_writers_knew() {
    let cluster = SharedCluster::new(6, 2).await;
    let (one, two) = cluster.clients();
    let files = written_by_both(&cluster).await;
    let ino = files[0].ino();
    for (writer, len) in [(one, 20_000), (two, 10_000)] {
        set_len(writer, ino, len).await;
        let sizes = [one.attr(ino).await.size, two.attr(ino).await.size];
        assert_eq!(sizes, [len; 2]);
        one.write(&files[0], 0, b"1").await;
        two.write(&files[1], 1, b"2").await;
        one.write(&files[0], 2, b"3").await;
        let sizes = [one.attr(ino).await.size, two.attr(ino).await.size];
        assert_eq!(sizes, [len; 2]);
        let read = one.read(&files[0], 0, 1 << 20).await;
        assert_eq!(
            (read.len() as u64, &read[..4]),
            (len, b"123\x09".as_slice())
        );
    }
}

/// A program is killed in a write behind the end that its client knows. The client must not truncate there: others have written behind it.
#[tokio::test(start_paused = true)]
async fn what_a_dropped_write_left_behind_is_not_truncated() {
    let cluster = SharedCluster::new(8, 2).await;
    let (one, two) = cluster.clients();
    let [file1, file2] = written_by_both(&cluster).await;
    let (at, behind) = (300_000, 900_000);
    {
        let bytes = Bytes::from_static(&[7; 10_000]);
        let (position, options) = (WritePosition::Offset(at), WriteOptions::default());
        let mut write = Box::pin(one.client.write(&file1, position, bytes, options));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(write.as_mut().poll(&mut cx).is_pending());
    }
    two.write(&file2, behind, &[5; 10_000]).await;
    one.close(file1).await;
    assert_eq!(two.attr(file2.ino()).await.size, behind + 10_000);
    assert!(two.read(&file2, behind, 20_000).await == [5; 10_000]);
    let between = two.read(&file2, at, 10_000).await;
    assert!(between.iter().all(|byte| [0, 7].contains(byte)));
}

#[tokio::test(start_paused = true)]
async fn fsync_of_one_writer_makes_the_bytes_of_all_durable() {
    for data_only in [false, true] {
        let cluster = SharedCluster::new(7, 2).await;
        let (one, two) = cluster.clients();
        let files = written_by_both(&cluster).await;
        let ino = files[0].ino();
        let (first, second) = (6 << 20, 9 << 20);
        one.write(&files[0], first, &[1; 5_000]).await;
        // The second sync is about the same objects as the first.
        one.client.fsync(&files[0], data_only).await.unwrap();
        two.write(&files[1], second, &[2; 5_000]).await;
        two.write(&files[1], first + 100, &[3; 100]).await;
        one.client.fsync(&files[0], data_only).await.unwrap();
        let SharedCluster { disks, servers, .. } = cluster;
        disks.power_loss_of(servers).await;
        let servers = disks.servers(|_| {}).await;
        let user = servers.connect(SessionOptions::default()).await;
        let file = user.open(ino).await;
        assert_eq!(user.attr(ino).await.size, second + 5_000);
        let expected = [[1; 100], [3; 100], [1; 100]].concat();
        assert_eq!(user.read(&file, first, 300).await, expected);
        assert!(user.read(&file, second, 5_000).await == [2; 5_000]);
        assert!(user.read(&file, 0, RECORD as u64).await == [9; RECORD]);
    }
}
