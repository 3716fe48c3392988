//! A thousand sessions of one metadata server: each is a client with a connection, without a mount.

use crate::running::{TIMEOUT, resident};
use crate::test_cluster::{DaemonHosts, TestCluster};
use bytes::Bytes;
use futures_util::future::join_all;
use gupfs_client::{
    Client, ClientCallbacks, OpenFile, OpenFileFlags, ReadOptions, Route, SessionOptions,
    WriteOptions, renew_after_reconnect,
};
use gupfs_platform::{Net, Platform, Task};
use gupfs_proto::meta::{AccessMode, CreateMode, OpenMode, WritePosition};
use gupfs_proto::{Caller, FileKind, InodeId, Name, SessionId};
use gupfs_rpc::{
    ClientConnection, ClusterKey, Handlers, OssConnections, ProcessIdentity, Role, ServerAddresses,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::sync::Arc;
use std::time::Instant;

const MAKE: CreateMode = CreateMode {
    mode: 0o644,
    umask: 0,
};

fn sessions() -> usize {
    let set = std::env::var("GUPFS_CLUSTER_SESSIONS");
    set.map_or(1_000, |set| set.parse().unwrap())
}

/// Closed files of all clients together.
fn files() -> usize {
    let set = std::env::var("GUPFS_CLUSTER_FILES");
    set.map_or(2_000, |set| set.parse().unwrap())
}

/// Memory that a metadata server may use: for each session, for each inode, and in addition.
fn memory_most() -> u64 {
    (200 << 20) + sessions() as u64 * (200 << 10) + files() as u64 * (2 << 10)
}

/// One client with a write lease.
struct Member {
    client: Arc<Client>,
    session: SessionId,
    dir: InodeId,
    held: Arc<OpenFile>,
    _recalled: Arc<ClientCallbacks>,
    _greeting: Task<()>,
}

impl Member {
    async fn enter(identity: ProcessIdentity, at: &str, number: usize) -> Member {
        let platform = identity.platform.clone();
        let me = identity.local_identity(Role::Client, &format!("member{number}"));
        let recalled = Arc::new(ClientCallbacks::default());
        let line = ClientConnection::connect(identity.mds_connection_options(
            &ServerAddresses::one(at),
            &me,
            Handlers::none().with_service(recalled.clone()),
        ));
        let met = line.wait_connected(TIMEOUT).await;
        let met = met.unwrap_or_else(|error| panic!("member {number}: {error}"));
        let lines = OssConnections::new(&identity, me, met.cluster, at);
        let route = Route::with_map(
            line.peer(),
            Vec::new(),
            line.peer(),
            lines,
            platform.clock.clone(),
        );
        let options = SessionOptions {
            name: format!("member{number}"),
            shared: true,
            ..SessionOptions::default()
        };
        let client = Client::connect_with_route(route, platform.clone(), options)
            .await
            .unwrap();
        recalled.set_client(&client);
        let greet = renew_after_reconnect(line, client.clone());
        let (session, root) = (client.session(), client.root());
        let (caller, own) = (Caller::root(), name(&format!("dir{number}")));
        let made = client.mkdir(&caller, root, &own, MAKE);
        let dir = made.await.unwrap().ino;
        let held = create(&client, dir, "held").await;
        write(&client, &held, 0, b"before").await;
        Member {
            client,
            session,
            dir,
            held,
            _recalled: recalled,
            _greeting: platform.tasks.spawn("greet", greet),
        }
    }

    async fn make_files(&self, count: usize) {
        for number in 0..count {
            let (client, caller, dir) = (&self.client, Caller::root(), self.dir);
            let name = name(&format!("file{number}"));
            let made = client.mknod(&caller, dir, &name, FileKind::Regular, 0, MAKE);
            let made = made.await.unwrap();
            client.forget([(made.ino, 1)]);
        }
    }

    /// Checks that its open file is unchanged, and that it can create another.
    async fn goes_on(&self) {
        let how = ReadOptions::default();
        write(&self.client, &self.held, 6, b" and after").await;
        let bytes = self.client.read(&self.held, 0, 100, how).await.unwrap();
        assert_eq!(bytes.concat(), b"before and after");
        let new = create(&self.client, self.dir, "new").await;
        self.client.release(new.id()).await.unwrap();
        assert_eq!(self.client.session(), self.session);
    }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

async fn create(client: &Client, dir: InodeId, called: &str) -> Arc<OpenFile> {
    let how = OpenMode {
        access: AccessMode::READ | AccessMode::WRITE,
        truncate: false,
        kill_privileges: false,
    };
    let (caller, called) = (Caller::root(), name(called));
    let made = client.create(
        &caller,
        dir,
        &called,
        MAKE,
        true,
        how,
        OpenFileFlags::default(),
    );
    made.await.unwrap().file
}

async fn write(client: &Client, file: &OpenFile, at: u64, bytes: &'static [u8]) {
    let (at, bytes) = (WritePosition::Offset(at), Bytes::from_static(bytes));
    let written = client.write(file, at, bytes, WriteOptions::default()).await;
    written.unwrap();
}

/// Sessions that the metadata server knows.
fn known(cluster: &TestCluster) -> usize {
    let status = cluster.status();
    status["mds"]["sessions"].as_object().unwrap().len()
}

/// This process has a descriptor for each client's connection as well.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

#[test]
fn a_thousand_sessions_reconnect_to_a_metadata_server_that_was_killed() {
    raise_limit();
    // The usual limit of a shell: fewer than there are sessions.
    let few = ["sh", "-c", "ulimit -Sn 400; exec \"$0\" \"$@\""];
    let mut daemon_hosts = DaemonHosts::default();
    let before = few.map(str::to_string).to_vec();
    daemon_hosts.before.insert("mds".into(), before);
    let mut cluster = TestCluster::on(daemon_hosts, 1, 0);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let platform = Platform::real();
    let key = ClusterKey::new(fs::read(cluster.key()).unwrap().try_into().unwrap());
    let base = ProcessIdentity::new(&platform, Net::real(), "crowd".into(), Some(key.into()));
    let at = cluster.at.clone();
    let begun = Instant::now();
    let members = runtime.block_on(async {
        let enter = |number| {
            tokio::spawn({
                let (identity, at) = (base.with_new_process_id(), at.clone());
                async move { Member::enter(identity, &at, number).await }
            })
        };
        let members = join_all((0..sessions()).map(enter)).await;
        let members = members.into_iter().map(|member| Arc::new(member.unwrap()));
        members.collect::<Vec<_>>()
    });
    let all = |work: Work| runtime.block_on(together(&members, work));
    eprintln!("{} sessions after {:?}", sessions(), begun.elapsed());
    let begun = Instant::now();
    all(Work::Files(files() / sessions()));
    eprintln!("{} more files after {:?}", files(), begun.elapsed());
    assert_eq!(known(&cluster), sessions());
    let took = resident(cluster.mds.pid());
    cluster.mds.kill();
    let begun = Instant::now();
    cluster.mds.start_again();
    let ready = begun.elapsed();
    all(Work::Goes);
    let served = begun.elapsed();
    let takes = resident(cluster.mds.pid());
    eprintln!(
        "started again: ready after {ready:?}, all {} served after {served:?}; memory before {} MiB, after {} MiB",
        sessions(),
        took >> 20,
        takes >> 20
    );
    assert_eq!(known(&cluster), sessions());
    assert!(took.max(takes) < memory_most(), "{took}, {takes}");
    let begun = Instant::now();
    all(Work::Ends);
    eprintln!("all have left after {:?}", begun.elapsed());
    assert_eq!(known(&cluster), 0);
    drop(members);
    cluster.stop();
}

#[derive(Clone, Copy)]
enum Work {
    Files(usize),
    Goes,
    Ends,
}

async fn together(members: &[Arc<Member>], work: Work) {
    let works = members.iter().cloned().map(|member| {
        tokio::spawn(async move {
            match work {
                Work::Files(count) => member.make_files(count).await,
                Work::Goes => member.goes_on().await,
                Work::Ends => member.client.stop().await.unwrap(),
            }
        })
    });
    for done in join_all(works).await {
        done.unwrap();
    }
}
