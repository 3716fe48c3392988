//! Many clients in the test's process, each with a session and connections of its own, without a mount.

use crate::running::TIMEOUT;
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
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const MAKE: CreateMode = CreateMode {
    mode: 0o644,
    umask: 0,
};

pub struct Crowd {
    members: Vec<Arc<Member>>,
    runtime: Runtime,
}

impl Crowd {
    /// So many clients enter at once, each with a directory of this name and its number.
    pub fn enter(name: &'static str, count: usize, at: &str, key: &Path) -> Crowd {
        raise_limit();
        let runtime = Runtime::new().unwrap();
        let key = ClusterKey::new(std::fs::read(key).unwrap().try_into().unwrap());
        let platform = Platform::real();
        let base = ProcessIdentity::new(&platform, Net::real(), "crowd".into(), Some(key.into()));
        let members = runtime.block_on(async {
            let enter = |number| {
                let (identity, at) = (base.with_new_process_id(), at.to_owned());
                tokio::spawn(async move { Member::enter(identity, &at, (name, number)).await })
            };
            let members = join_all((0..count).map(enter)).await;
            let members = members.into_iter().map(|member| Arc::new(member.unwrap()));
            members.collect()
        });
        Crowd { members, runtime }
    }

    /// Each creates and closes so many files.
    pub fn make_files(&self, count: usize) {
        self.together(|member| async move { member.make_files("file", count).await });
    }

    /// Each checks that its open file is unchanged, adds to it, and creates another file.
    pub fn go_on(&self, round: usize) {
        self.together(move |member| async move { member.goes_on(round).await });
    }

    /// All clients stop in order.
    pub fn leave(self) {
        self.together(|member| async move { member.client.stop().await.unwrap() });
    }

    /// The first one creates files while this happens; returns how long it waited for an answer at most.
    pub fn longest_create_during(&self, round: usize, what: impl FnOnce()) -> Duration {
        let (first, done) = (
            self.members[0].clone(),
            Arc::new(tokio::sync::Notify::new()),
        );
        let until = done.clone();
        let creating = self.runtime.spawn(async move {
            let (mut longest, mut number) = (Duration::ZERO, 0);
            let mut until = std::pin::pin!(until.notified());
            loop {
                let (begun, text) = (Instant::now(), format!("during{round}-{number}-"));
                tokio::select! {
                    biased;
                    () = &mut until => return longest,
                    () = first.make_files(&text, 1) => {}
                }
                longest = longest.max(begun.elapsed());
                number += 1;
            }
        });
        what();
        done.notify_one();
        self.runtime.block_on(creating).unwrap()
    }

    fn together<W: Future<Output = ()> + Send + 'static>(&self, work: impl Fn(Arc<Member>) -> W) {
        let works = self.members.iter().cloned();
        let works: Vec<_> = works
            .map(|member| self.runtime.spawn(work(member)))
            .collect();
        for done in self.runtime.block_on(join_all(works)) {
            done.unwrap();
        }
    }
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
    async fn enter(identity: ProcessIdentity, at: &str, (kind, number): (&str, usize)) -> Member {
        let platform = identity.platform.clone();
        let me = identity.local_identity(Role::Client, &format!("{kind}{number}"));
        let recalled = Arc::new(ClientCallbacks::default());
        let line = ClientConnection::connect(identity.mds_connection_options(
            &ServerAddresses::one(at),
            &me,
            Handlers::none().with_service(recalled.clone()),
        ));
        let met = line.wait_connected(TIMEOUT).await;
        let met = met.unwrap_or_else(|error| panic!("{kind} {number}: {error}"));
        let lines = OssConnections::new(&identity, me, met.cluster, at);
        let route = Route::with_map(
            line.peer(),
            Vec::new(),
            line.peer(),
            lines,
            platform.clock.clone(),
        );
        let options = SessionOptions {
            name: format!("{kind}{number}"),
            shared: true,
            ..SessionOptions::default()
        };
        let client = Client::connect_with_route(route, platform.clone(), options)
            .await
            .unwrap();
        recalled.set_client(&client);
        let greet = renew_after_reconnect(line, client.clone());
        let (session, root) = (client.session(), client.root());
        let (caller, own) = (Caller::root(), name(&format!("{kind}{number}")));
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

    async fn make_files(&self, text: &str, count: usize) {
        for number in 0..count {
            let (client, caller, dir) = (&self.client, Caller::root(), self.dir);
            let name = name(&format!("{text}{number}"));
            let made = client.mknod(&caller, dir, &name, FileKind::Regular, 0, MAKE);
            let made = made.await.unwrap();
            client.forget([(made.ino, 1)]);
        }
    }

    async fn goes_on(&self, round: usize) {
        const MORE: &[u8] = b" and after";
        let at = 6 + (round * MORE.len()) as u64;
        write(&self.client, &self.held, at, MORE).await;
        let how = ReadOptions::default();
        let bytes = self.client.read(&self.held, 0, 1000, how).await.unwrap();
        let expected = [&b"before"[..], &MORE.repeat(round + 1)].concat();
        assert_eq!(bytes.concat(), expected);
        let new = create(&self.client, self.dir, &format!("new{round}")).await;
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

/// This process has a descriptor for each client's connection as well.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}
