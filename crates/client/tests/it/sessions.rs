//! Clients that survive a restart of their metadata server, and sessions that the server ends.

use crate::real_servers::{ClusterDisks, Servers, lay_out_small};
use crate::shared_cluster::append;
use crate::user::{User, flags, me, name, open_mode};
use bytes::Bytes;
use gupfs_client::SessionOptions;
use gupfs_mds::{Mds, MdsOptions};

use gupfs_proto::limits::{CLIENT_TERM, SERVER_TERM};
use gupfs_proto::meta::{
    CreateMode, MetaOp, MetaReply, MetaRequest, RenameMode, XattrMode, XattrName,
};
use gupfs_proto::{Caller, FsError, InodeId, OwnerEpoch, ShardGroup, Timestamp, data};
use gupfs_rpc::{Peer, Service};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Notify;

const REPLACE: RenameMode = RenameMode::Replace;

const DIR: CreateMode = CreateMode {
    mode: 0o755,
    umask: 0,
};

/// A connection to the current metadata server; requests wait while there is none, and pending requests are sent again.
#[derive(Default)]
pub struct MdsConnection {
    mds: Mutex<Option<Arc<Mds>>>,
    changed: Notify,
    /// Each lock request is delivered a second time after at most this many milliseconds; 0 is never.
    pub duplicate_delay_max: AtomicU64,
    copies: AtomicU64,
    pub getxattrs: AtomicU64,
}

impl MdsConnection {
    pub fn connect_to(&self, mds: &Arc<Mds>) {
        *self.mds.lock() = Some(mds.clone());
        self.changed.notify_waiters();
    }

    pub fn disconnect(&self) {
        *self.mds.lock() = None;
        self.changed.notify_waiters();
    }
}

impl MdsConnection {
    async fn call_until_answered(&self, request: MetaRequest) -> MetaReply {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let mds = self.mds.lock().clone();
            let Some(mds) = mds else {
                changed.await;
                continue;
            };
            tokio::select! {
                biased;
                () = changed => {}
                reply = mds.handle(request.clone()) => return reply,
            }
        }
    }
}

impl Service<MetaRequest, MetaReply> for MdsConnection {
    async fn handle(self: Arc<Self>, request: MetaRequest) -> MetaReply {
        if matches!(request.op, MetaOp::GetXattr { .. }) {
            self.getxattrs.fetch_add(1, Relaxed);
        }
        let latest = self.duplicate_delay_max.load(Relaxed);
        if latest > 0 && matches!(request.op, MetaOp::Lock(_)) {
            let (connection, copy) = (self.clone(), request.clone());
            let count = self.copies.fetch_add(1, Relaxed);
            let late = Duration::from_millis(count * 7919 % latest);
            tokio::spawn(async move {
                tokio::time::sleep(late).await;
                connection.call_until_answered(copy).await;
            });
        }
        self.call_until_answered(request).await
    }
}

pub struct RestartCluster {
    disks: ClusterDisks,
    pub servers: Servers,
    pub users: Vec<User>,
    pub connections: Vec<Arc<MdsConnection>>,
}

fn enable_session_recovery(options: &mut MdsOptions) {
    options.keep_sessions = true;
}

fn continue_as_copy(options: &mut MdsOptions) {
    options.keep_sessions = true;
    options.hands_over = true;
    options.kept_memory = true;
}

impl RestartCluster {
    pub async fn new(seed: u64) -> RestartCluster {
        RestartCluster::with(seed, enable_session_recovery).await
    }

    /// Another server goes on when this one is killed, with everything that it answered.
    pub async fn new_with_copies(seed: u64) -> RestartCluster {
        RestartCluster::with(seed, continue_as_copy).await
    }

    /// Of the owners of this shard group.
    pub async fn of_group(seed: u64, group: ShardGroup) -> RestartCluster {
        let mut disks = ClusterDisks::new(seed).await;
        disks.first_owner = Some(OwnerEpoch::new(group, 1));
        RestartCluster::on(disks, enable_session_recovery).await
    }

    async fn with(seed: u64, how: impl FnOnce(&mut MdsOptions)) -> RestartCluster {
        RestartCluster::on(ClusterDisks::new(seed).await, how).await
    }

    async fn on(disks: ClusterDisks, how: impl FnOnce(&mut MdsOptions)) -> RestartCluster {
        let servers = disks.servers(how).await;
        let (mut users, mut connections) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let connection = Arc::new(MdsConnection::default());
            connection.connect_to(&servers.mds);
            let options = SessionOptions {
                shared: true,
                ..SessionOptions::default()
            };
            let user = servers
                .connect_by(Peer::local(connection.clone()), options)
                .await;
            connections.push(connection);
            users.push(user);
        }
        let cluster = RestartCluster {
            disks,
            servers,
            users,
            connections,
        };
        cluster.attach(0);
        cluster.attach(1);
        lay_out_small(&cluster.users[0]).await;
        cluster
    }

    pub fn attach(&self, number: usize) {
        let client = &self.users[number].client;
        let back = Peer::local(client.clone());
        self.servers.mds.attach(client.session(), back);
    }

    /// Cuts the connection between this client and the metadata server in both directions.
    pub fn cut_off(&self, number: usize) {
        self.connections[number].disconnect();
        let session = self.users[number].client.session();
        self.servers.mds.detach(session);
    }

    pub fn reconnect(&self, number: usize) {
        self.connections[number].connect_to(&self.servers.mds);
        self.attach(number);
    }

    /// The metadata server is killed, and another one goes on. Both clients are disconnected.
    pub async fn take_over(&mut self) {
        self.kill_and_start(false, continue_as_copy).await;
    }

    pub async fn restart(&mut self, with_power_cut: bool) {
        self.kill_and_start(with_power_cut, enable_session_recovery)
            .await;
    }

    async fn kill_and_start(&mut self, with_power_cut: bool, how: impl FnOnce(&mut MdsOptions)) {
        self.connections
            .iter()
            .for_each(|connection| connection.disconnect());
        match with_power_cut {
            true => self.disks.power_loss_of_metadata(&self.servers).await,
            false => self.disks.kill_metadata(&self.servers).await,
        }
        self.disks.start_metadata(&mut self.servers, how).await;
    }

    /// The metadata server stops cleanly, and is started again.
    pub async fn restart_cleanly(&mut self) {
        self.connections
            .iter()
            .for_each(|connection| connection.disconnect());
        self.servers.mds.stop().await.unwrap();
        self.disks.kill_metadata(&self.servers).await;
        self.disks
            .start_metadata(&mut self.servers, enable_session_recovery)
            .await;
    }

    pub fn clients(&self) -> (&User, &User) {
        (&self.users[0], &self.users[1])
    }
}

pub async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn clients_continue_after_a_restart_of_their_metadata_server() {
    let mut cluster = RestartCluster::new(1).await;
    let (one, two) = (cluster.users[0].clone(), cluster.users[1].clone());
    let file1 = one.create("file").await;
    one.write(&file1, 0, &[1; 100_000]).await;
    let gone = one.create("gone").await;
    one.write(&gone, 0, &[2; 100_000]).await;
    // Client 0 has no lease on the new name: nothing delays its removal.
    let (root, names) = (two.client.root(), [name("gone"), name("moved")]);
    let (from, to) = ((root, &names[0]), (root, &names[1]));
    let moved = two.client.rename(&me(), from, to, REPLACE).await;
    moved.unwrap();
    // The server cannot ask client 0 about the file before the restart.
    cluster.cut_off(0);
    two.client.unlink(&me(), root, &names[1]).await.unwrap();
    let sessions = [one.client.session(), two.client.session()];
    cluster.restart(false).await;
    assert_eq!(cluster.servers.mds.recovery().kept_sessions, 2);
    cluster.reconnect(1);
    // Replays come before new changes: a client that has reconnected waits for those that have not.
    let user = two.clone();
    let make = tokio::spawn(async move { user.create("new").await });
    let (user, ino) = (two.clone(), file1.ino());
    let look = tokio::spawn(async move { user.attr(ino).await.size });
    seconds(3).await;
    assert!(!look.is_finished() && !make.is_finished());
    assert_eq!(cluster.servers.mds.status().await.missing, [sessions[0]]);
    cluster.reconnect(0);
    seconds(1).await;
    assert_eq!(look.await.unwrap(), 100_000);
    make.await.unwrap();
    one.write(&file1, 100_000, b"more").await;
    assert_eq!(two.attr(file1.ino()).await.size, 100_004);
    seconds(60).await;
    assert_eq!([one.client.session(), two.client.session()], sessions);
    assert_eq!(one.read(&gone, 0, 2).await, [2, 2]);
    let space = one.client.statfs(&me()).await.unwrap();
    assert_eq!(space.inodes, 4);
    one.close(gone).await;
    seconds(5).await;
    let space = one.client.statfs(&me()).await.unwrap();
    assert_eq!((space.inodes, space.purging), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_reconnect_after_a_restart_loses_its_session() {
    let mut cluster = RestartCluster::new(2).await;
    let (one, two) = (cluster.users[0].clone(), cluster.users[1].clone());
    let file1 = one.create("file").await;
    one.write(&file1, 0, &[1; 100_000]).await;
    cluster.restart(false).await;
    cluster.reconnect(1);
    let begun = tokio::time::Instant::now();
    let file2 = two.open(file1.ino()).await;
    assert_eq!(append(&two, &file2, b"x").await, 100_000);
    let waited = begun.elapsed();
    assert!(
        (SERVER_TERM..SERVER_TERM + Duration::from_secs(3)).contains(&waited),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_client_writes_for_its_term_and_then_loses_its_session() {
    let cluster = RestartCluster::new(3).await;
    let (one, two) = cluster.clients();
    let file1 = one.create("file").await;
    one.write(&file1, 0, &[1; 100_000]).await;
    seconds(12).await;
    cluster.cut_off(0);
    let session = one.client.session();
    let begun = tokio::time::Instant::now();
    let mut at = 100_000;
    for _ in 0..100 {
        seconds(1).await;
        let write = one.write(&file1, at, &[1; 10]);
        if tokio::time::timeout(Duration::from_secs(40), write)
            .await
            .is_err()
        {
            break;
        }
        at += 10;
    }
    let wrote = begun.elapsed() - Duration::from_secs(40);
    assert!(wrote <= CLIENT_TERM + Duration::from_secs(1), "{wrote:?}");
    assert!(wrote + Duration::from_secs(7) > CLIENT_TERM, "{wrote:?}");
    // Meanwhile the other client gets the lease.
    assert_eq!(two.attr(file1.ino()).await.size, at);
    let file2 = two.open(file1.ino()).await;
    assert_eq!(append(two, &file2, b"two").await, at);
    // It learns that its session has ended, and opens a new one.
    cluster.connections[0].connect_to(&cluster.servers.mds);
    seconds(10).await;
    assert_ne!(one.client.session(), session);
    cluster.attach(0);
    let stale = one.client.read(&file1, 0, 10, Default::default()).await;
    assert_eq!(stale, Err(FsError::Stale));
    assert_eq!(one.try_write(&file1, 0, 10).await, Err(FsError::Stale));
    let cut = one.client.truncate_open(&me(), &file1, 0, false).await;
    assert_eq!(cut, Err(FsError::Stale));
    one.close(file1.clone()).await;
    let again = one
        .client
        .open(&me(), file1.ino(), open_mode(), flags())
        .await;
    let again = again.unwrap().file;
    assert_eq!(one.read(&again, at, 10).await, b"two");
    assert_eq!(append(one, &again, b"and more").await, at + 3);
    assert_eq!(two.attr(file1.ino()).await.size, at + 11);
}

/// The metadata server's connection to a target; while it is cut, requests wait.
struct TargetConnection {
    to: Peer<data::DataRequest, data::DataReply>,
    is_cut: AtomicBool,
}

impl Service<data::DataRequest, data::DataReply> for TargetConnection {
    async fn handle(self: Arc<Self>, request: data::DataRequest) -> data::DataReply {
        while self.is_cut.load(Relaxed) {
            seconds(1).await;
        }
        self.to.call(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_in_time_while_the_cleanup_of_another_hangs() {
    let mut target_connections = Vec::new();
    let cluster = RestartCluster::with(7, |options| {
        enable_session_recovery(options);
        for target in &mut options.targets {
            let target_connection = Arc::new(TargetConnection {
                to: target.peer.clone(),
                is_cut: AtomicBool::new(false),
            });
            target.peer = Peer::local(target_connection.clone());
            target_connections.push(target_connection);
        }
    })
    .await;
    let (one, two) = cluster.clients();
    let (of_one, of_two) = (one.create("one").await, two.create("two").await);
    one.write(&of_one, 0, &[1; 100_000]).await;
    two.write(&of_two, 0, &[2; 100_000]).await;
    let sessions = [one.client.session(), two.client.session()];
    target_connections
        .iter()
        .for_each(|target_connection| target_connection.is_cut.store(true, Relaxed));
    cluster.cut_off(0);
    seconds(10).await;
    cluster.cut_off(1);
    seconds(17).await;
    let alive = |session: usize| cluster.servers.mds.has_session(sessions[session]);
    assert_eq!([alive(0), alive(1)], [false, true]);
    seconds(10).await;
    assert!(!alive(1), "its term has been over for seconds");
    target_connections
        .iter()
        .for_each(|target_connection| target_connection.is_cut.store(false, Relaxed));
    cluster.reconnect(0);
    seconds(10).await;
    assert_eq!(one.attr(of_two.ino()).await.size, 100_000);
}

/// How many changes that the last power loss had undone were made again.
async fn replayed_changes(cluster: &RestartCluster) -> u64 {
    cluster.servers.mds.status().await.made_again
}

#[tokio::test(start_paused = true)]
async fn changes_undone_by_a_power_loss_are_replayed_unchanged() {
    let mut again = 0;
    for seed in 10..30 {
        let mut cluster = RestartCluster::new(seed).await;
        let (one, two) = (cluster.users[0].clone(), cluster.users[1].clone());
        let root = one.client.root();
        let large = one.create("large").await;
        one.write(&large, 0, &[1; 100_000]).await;
        let file2 = two.open(large.ino()).await;
        let end = append(&two, &file2, b"end").await;
        assert_eq!(end, 100_000);
        // Each client depends on the other's changes, and nothing is synced.
        let dir = one.client.mkdir(&me(), root, &name("dir"), DIR).await;
        let dir = dir.unwrap().ino;
        let small = two.try_create_in(dir, "small").await.unwrap();
        two.write(&small, 0, b"inline").await;
        let fresh = one.try_create_in(dir, "fresh").await.unwrap();
        one.write(&fresh, 0, &[3; 100_000]).await;
        two.client
            .rename(
                &me(),
                (dir, &name("small")),
                (root, &name("moved")),
                REPLACE,
            )
            .await
            .unwrap();
        let gone = two.create("gone").await;
        two.write(&gone, 0, &[2; 100_000]).await;
        one.client.unlink(&me(), root, &name("gone")).await.unwrap();
        let before = [attr_of(&one, dir).await, attr_of(&two, small.ino()).await];
        let sessions = [one.client.session(), two.client.session()];
        cluster.restart(true).await;
        cluster.reconnect(0);
        cluster.reconnect(1);
        assert_eq!(one.read(&large, 99_999, 9).await, b"\x01end");
        assert_eq!(two.read(&gone, 0, 2).await, [2, 2]);
        assert_eq!(one.read(&fresh, 99_999, 2).await, [3]);
        let after = [attr_of(&one, dir).await, attr_of(&two, small.ino()).await];
        assert_eq!(after, before);
        let moved = one
            .client
            .lookup(&me(), root, &name("moved"))
            .await
            .unwrap();
        assert_eq!(moved.ino, small.ino());
        assert_eq!(
            one.client.lookup(&me(), root, &name("gone")).await,
            Err(FsError::NotFound)
        );
        two.write(&small, 6, b", and more").await;
        assert_eq!(append(&one, &large, b"!").await, 100_003);
        again += replayed_changes(&cluster).await;
        let file2 = two.open(fresh.ino()).await;
        assert_eq!(two.read(&file2, 99_999, 2).await, [3]);
        // The replayed changes are durable now.
        cluster.restart(true).await;
        cluster.reconnect(0);
        cluster.reconnect(1);
        let moved = one
            .client
            .lookup(&me(), root, &name("moved"))
            .await
            .unwrap();
        assert_eq!(moved.ino, small.ino());
        assert_eq!([one.client.session(), two.client.session()], sessions);
    }
    assert!(again > 20, "power losses undid {again} changes");
}

async fn attr_of(user: &User, ino: InodeId) -> (u64, Timestamp, Timestamp) {
    let attr = user.attr(ino).await;
    (attr.size, attr.mtime, attr.ctime)
}

#[tokio::test(start_paused = true)]
async fn a_client_that_depends_on_a_change_that_is_not_replayed_loses_its_session() {
    let (mut anew, mut kept) = (0, 0);
    for seed in 10..30 {
        let mut cluster = RestartCluster::new(seed).await;
        let (one, two) = (cluster.users[0].clone(), cluster.users[1].clone());
        let root = one.client.root();
        let file1 = two.create("kept").await;
        two.write(&file1, 0, &[1; 100_000]).await;
        two.client.fsync(&file1, false).await.unwrap();
        let dir = one.client.mkdir(&me(), root, &name("dir"), DIR).await;
        two.try_create_in(dir.unwrap().ino, "file").await.unwrap();
        let before = two.client.session();
        cluster.restart(true).await;
        // The client that created the directory never reconnects.
        cluster.reconnect(1);
        seconds(30).await;
        cluster.attach(1);
        let is_there = two.client.lookup(&me(), root, &name("dir")).await;
        match two.client.session() == before {
            true => kept += u32::from(is_there.is_ok()),
            false => {
                assert_eq!(is_there, Err(FsError::NotFound));
                anew += 1;
            }
        }
        let file = two.open(file1.ino()).await;
        assert_eq!(append(&two, &file, b"x").await, 100_000);
    }
    assert!(
        anew > 0 && kept > 0,
        "{anew} power losses removed the directory, {kept} did not"
    );
}

/// How many sync requests the targets have served.
async fn syncs(cluster: &RestartCluster) -> u64 {
    let targets = cluster.servers.oss.status().await.targets;
    targets.iter().map(|target| target.served.syncs).sum()
}

#[tokio::test(start_paused = true)]
async fn inline_data_moves_with_a_sync_if_another_client_has_opened_the_file() {
    let cluster = RestartCluster::new(1).await;
    let (one, two) = cluster.clients();
    let file1 = one.create("file1").await;
    one.write(&file1, 0, b"small").await;
    one.write(&file1, 5, &[1; 10_000]).await;
    assert_eq!(syncs(&cluster).await, 0);
    let ours = one.create("ours").await;
    one.write(&ours, 0, b"small").await;
    let file2 = two.open(ours.ino()).await;
    two.client.fsync(&file2, false).await.unwrap();
    two.close(file2).await;
    one.write(&ours, 5, &[1; 10_000]).await;
    assert_eq!(syncs(&cluster).await, 1);
    for file in [file1, ours] {
        let file2 = two.open(file.ino()).await;
        let bytes = two.read(&file2, 0, 20_000).await;
        assert_eq!((bytes.len(), &bytes[..6]), (10_005, &b"small\x01"[..]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_holder_answers_by_itself_that_its_file_has_no_capabilities() {
    let cluster = RestartCluster::new(1).await;
    let (one, two) = cluster.clients();
    let capability = XattrName::new(b"security.capability").unwrap();
    let file = one.create("program").await;
    let ino = file.ino();
    let root = Caller::root();
    let get = async |user: &User| user.client.getxattr(&me(), ino, &capability).await;
    let set = async |user: &User| {
        let (value, how) = (Bytes::from_static(&[7; 20]), XattrMode::CreateOrReplace);
        let set = user.client.setxattr(&root, ino, &capability, value, how);
        set.await.unwrap();
    };
    one.write(&file, 0, &[1; 10_000]).await;
    let asked = cluster.connections[0].getxattrs.load(Relaxed);
    assert_eq!(get(one).await, Err(FsError::NoAttribute));
    assert_eq!(
        cluster.connections[0].getxattrs.load(Relaxed),
        asked,
        "the client sent a GetXattr"
    );
    assert_eq!(get(two).await, Err(FsError::NoAttribute));
    // Set by the other client, and by the lease holder itself.
    for user in [two, one] {
        set(user).await;
        for user in [one, two] {
            assert_eq!(get(user).await.unwrap(), [7; 20][..]);
        }
        one.write(&file, 0, b"x").await;
        for user in [one, two] {
            assert_eq!(get(user).await, Err(FsError::NoAttribute));
        }
    }
}
