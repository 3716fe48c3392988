//! The write lease of a file moves from client to client, also from one that does not answer.

use crate::shared_cluster::{SharedCluster, append, pause};
use crate::user::me;
use gupfs_client::SessionOptions;
use gupfs_proto::meta;
use gupfs_proto::{FsError, InodeId};
use gupfs_rpc::{Peer, Service};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn an_unreachable_lease_holder_is_waited_for_until_its_session_ends() {
    let cluster = SharedCluster::new(12, 2).await;
    let (one, two) = cluster.clients();
    let file1 = one.create("file").await;
    one.write(&file1, 0, &[1; 70_000]).await;
    let file2 = two.open(file1.ino()).await;
    one.write(&file1, 0, &[1; 170_000]).await;
    let session = one.client.session();
    cluster.servers.mds.detach(session);
    let (ino, looking) = (file1.ino(), two.clone());
    let look = tokio::spawn(async move { looking.attr(ino).await.size });
    let writing = two.clone();
    let write = tokio::spawn(async move {
        let offset = append(&writing, &file2, &[2; 10]).await;
        (offset, file2)
    });
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!look.is_finished() && !write.is_finished());
    let mut waits = cluster.waits().await;
    waits.sort();
    assert_eq!(
        waits,
        [
            format!(
                "session {session} to release its write lease on inode {:x}",
                ino.0
            ),
            format!(
                "session {session} to report the attributes of inode {:x}",
                ino.0
            ),
        ]
    );
    // A client that never returns: its session is closed without a report of its files.
    let goodbye = meta::MetaRequest {
        session,
        slot_seq: Some(meta::SlotSeq {
            slot: gupfs_proto::Slot(63),
            sequence: 1_000,
        }),
        caller: gupfs_proto::Caller::root(),
        job: gupfs_proto::JobId(0),
        instance: cluster.servers.mds.owner_epoch(),
        last_seen: gupfs_proto::Seq(0),
        op: meta::MetaOp::CloseSession,
    };
    let mds: Peer<_, meta::MetaReply> = Peer::local(cluster.servers.mds.clone());
    mds.call(goodbye).await.result.unwrap();
    pause().await;
    assert_eq!(look.await.unwrap(), 170_000, "the size of its objects");
    let (offset, file2) = write.await.unwrap();
    assert_eq!(offset, 170_000);
    assert_eq!(
        two.read(&file2, 169_999, 20).await,
        [[1].as_slice(), &[2; 10]].concat()
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_holder_that_reconnects_gets_the_glimpse() {
    let cluster = SharedCluster::new(13, 2).await;
    let (one, two) = cluster.clients();
    let file1 = one.create("file").await;
    one.write(&file1, 0, &[1; 70_000]).await;
    cluster.servers.mds.detach(one.client.session());
    let (ino, looking) = (file1.ino(), two.clone());
    let look = tokio::spawn(async move { looking.attr(ino).await.size });
    tokio::time::sleep(Duration::from_secs(5)).await;
    one.write(&file1, 70_000, &[1; 10]).await;
    cluster.attach(one);
    pause().await;
    assert_eq!(look.await.unwrap(), 70_010);
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_request_names_the_session_it_waited_for() {
    let cluster = SharedCluster::new(14, 2).await;
    let (one, two) = cluster.clients();
    let file1 = one.create("file").await;
    one.write(&file1, 0, &[1; 70_000]).await;
    let session = one.client.session();
    cluster.servers.mds.detach(session);
    let refused = two.client.getattr(&me(), file1.ino()).await;
    let why = format!(
        "session {session} to report the attributes of inode {:x}",
        file1.ino().0
    );
    assert_eq!(refused, Err(FsError::TimedOut(why)));
}

/// Each client waits for leases of the other, with every slot in use.
#[tokio::test(start_paused = true)]
async fn many_write_leases_move_both_ways_at_once() {
    let cluster = SharedCluster::new(15, 2).await;
    let mut files = Vec::new();
    for number in 0..140 {
        let holder = &cluster.users[number % 2];
        let file = holder.create(&format!("f{number}")).await;
        holder.write(&file, 0, &[1; 5_000]).await;
        files.push(file);
    }
    let mut writes = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let (other, ino) = (cluster.users[(number + 1) % 2].clone(), file.ino());
        writes.push(tokio::spawn(async move {
            let file = other.open(ino).await;
            append(&other, &file, &[2; 10]).await
        }));
    }
    let all = async {
        for write in writes {
            assert_eq!(write.await.unwrap(), 5_000);
        }
    };
    tokio::time::timeout(Duration::from_secs(30), all)
        .await
        .expect("the two clients block each other");
}

/// A client that has released the write lease must still sync its own writes.
#[tokio::test(start_paused = true)]
async fn a_sync_covers_writes_made_before_the_lease_was_revoked() {
    for seed in 30..46 {
        let cluster = SharedCluster::new(seed, 2).await;
        let (one, two) = cluster.clients();
        let file1 = one.create("file").await;
        one.write(&file1, 0, &[3; 300_000]).await;
        let file2 = two.open(file1.ino()).await;
        two.write(&file2, 300_000, b"more").await;
        let ino: InodeId = file2.ino();
        if seed % 2 == 0 {
            one.client.fsync(&file1, false).await.unwrap();
        } else {
            // Also if the file was closed since, and by syncfs(2).
            assert_eq!(one.read(&file1, 299_999, 9).await, b"\x03more");
            two.client.fsync(&file2, false).await.unwrap();
            one.write(&file1, 0, b"first").await;
            two.write(&file2, 300_000, b"MORE").await;
            assert_eq!(one.read(&file1, 299_999, 9).await, b"\x03MORE");
            one.close(file1.clone()).await;
            one.client.sync_all().await.unwrap();
        }
        let SharedCluster { disks, servers, .. } = cluster;
        disks.power_loss_of(servers).await;
        let servers = disks.servers(|_| {}).await;
        let user = servers.connect(SessionOptions::default()).await;
        let file = user.open(ino).await;
        let read = user.read(&file, 0, 1 << 20).await;
        match seed % 2 {
            0 => assert!(read == [[3; 300_000].as_slice(), b"more"].concat()),
            // The last write of the other client was not synced.
            _ => assert!(read[..5] == *b"first" && read[5..300_000] == [3; 299_995]),
        }
    }
}

/// Delays callbacks of the metadata server.
struct DelayedCallbacks(Arc<gupfs_client::Client>, gupfs_platform::Clock);

impl Service<gupfs_proto::callback::CallbackRequest, gupfs_proto::callback::CallbackReply>
    for DelayedCallbacks
{
    async fn handle(
        self: Arc<Self>,
        question: gupfs_proto::callback::CallbackRequest,
    ) -> gupfs_proto::callback::CallbackReply {
        self.1.sleep(Duration::from_millis(50)).await;
        self.0.clone().handle(question).await
    }
}

/// The callback arrives after the file was closed and while it is written again: its reply would wait for that write, which waits
/// for the client whose request caused the callback.
#[tokio::test(start_paused = true)]
async fn a_late_callback_to_a_former_lease_holder_blocks_no_operation() {
    let cluster = SharedCluster::new(9, 2).await;
    let (one, two) = cluster.clients();
    let clock = gupfs_platform::Clock::real();
    let late = DelayedCallbacks(one.client.clone(), clock);
    let back = Peer::local(Arc::new(late));
    cluster.servers.mds.attach(one.client.session(), back);
    let file1 = one.create("f").await;
    let file2 = two.open(file1.ino()).await;
    append(one, &file1, &[1; 9_000]).await;
    let asks = append(two, &file2, &[2; 9_000]);
    let closes_and_writes = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let again = one.open(file1.ino()).await;
        one.client.release(file1.id()).await.unwrap();
        one.client.release(again.id()).await.unwrap();
        let again = one.open(file2.ino()).await;
        append(one, &again, &[3; 9_000]).await
    };
    let begun = tokio::time::Instant::now();
    tokio::join!(asks, closes_and_writes);
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
}
