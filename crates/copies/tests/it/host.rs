//! A simulated host, and the process on it: a copy of the store, and now and then the owner.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gupfs_copies::{CopiesError, CopyFiles, CopyOptions, MetadataCopy, OwnedStore, Ownership};
use gupfs_platform::fake::{
    FakeArbiter, FakeClock, FakeDisk, FakeNet, FakeOptions, FakePlatform, FakeRandom, FakeTasks,
};
use gupfs_platform::{Arbiter, BootTime, Clock, Disk, Random};
use gupfs_proto::copy::{CopyReply, CopyRequest};
use gupfs_proto::{ClusterId, CopyId, CopyRun, Incarnation, VirtualShards};
use gupfs_rpc::{
    AcceptAllClientKeys, AdmitAll, Capacity, ClusterKey, Handlers, NoObserver, ProcessIdentity,
    Role, RpcServer, RpcServerOptions, SendDeadline,
};
use gupfs_store::index::{FakeIndex, Index};
use gupfs_store::kv::{Kv, KvOptions};
use gupfs_store::log::{LogOptions, StopMode, StoreId};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Called when a process owns the store, with its epoch, and whether it kept its memory.
pub type OnOwned = Arc<dyn Fn(u64, bool) + Send + Sync>;

const STORE: StoreId = StoreId {
    cluster: ClusterId(1),
    incarnation: Incarnation(2),
};

pub struct Host {
    pub number: usize,
    pub name: String,
    pub clock: FakeClock,
    net: FakeNet,
    arbiter: FakeArbiter,
    random: FakeRandom,
    disk: Mutex<FakeDisk>,
    index: Arc<Mutex<FakeIndex>>,
    /// The list of the clients' keys.
    pub key_list: Arc<Mutex<Option<Bytes>>>,
    process: Mutex<Option<Process>>,
    /// Processes so far.
    pub runs: AtomicU64,
    /// Another task injects a fault here.
    pub is_reserved: AtomicBool,
    /// Its disk has more than its reserve left.
    pub has_room: Arc<AtomicBool>,
}

#[derive(Clone)]
pub struct Process {
    pub run: u64,
    platform: FakePlatform,
    pub copy: Arc<MetadataCopy>,
    pub owned: Arc<Mutex<Option<Owned>>>,
    pub send_deadline: SendDeadline,
    _server: Arc<RpcServer>,
}

/// What a process owns.
#[derive(Clone)]
pub struct Owned {
    pub kv: Arc<Kv>,
    pub ownership: Arc<Ownership>,
    pub epoch: u64,
    pub stop: Arc<tokio::sync::Notify>,
}

struct SimulatedFiles {
    disk: Disk,
    has_room: Arc<AtomicBool>,
    index: Arc<Mutex<FakeIndex>>,
    key_list: Arc<Mutex<Option<Bytes>>>,
    /// The index of this process, which a later one does not share.
    own: Mutex<FakeIndex>,
}

impl CopyFiles for SimulatedFiles {
    fn log_disk(&self) -> Result<Disk, String> {
        Ok(self.disk.clone())
    }

    fn open_index(&self) -> Result<Index, String> {
        Ok(Index::fake(self.own.lock().clone()))
    }

    fn clear(&self) -> BoxFuture<'static, Result<(), String>> {
        let (disk, fresh) = (self.disk.clone(), FakeIndex::new());
        *self.own.lock() = fresh.clone();
        *self.index.lock() = fresh;
        Box::pin(async move {
            let entries = disk.list(".").await.map_err(|error| error.to_string())?;
            for entry in entries {
                let removed = disk.remove_file(&entry.name).await;
                removed.map_err(|error| error.to_string())?;
            }
            disk.sync_dir(".").await.map_err(|error| error.to_string())
        })
    }

    fn has_room(&self) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(self.has_room.load(SeqCst)))
    }

    fn read_key_list(&self) -> Result<Option<Bytes>, String> {
        Ok(self.key_list.lock().clone())
    }

    fn write_key_list(&self, list: &[u8]) -> Result<(), String> {
        *self.key_list.lock() = Some(Bytes::copy_from_slice(list));
        Ok(())
    }
}

fn new_disk(seed: u64) -> FakeDisk {
    let yielding = FakeOptions {
        yields: true,
        ..FakeOptions::default()
    };
    FakeDisk::new(yielding, seed)
}

fn clock(random: &FakeRandom) -> FakeClock {
    match random.below(3) {
        0 => FakeClock::of_runtime_gaining(5_000),
        1 => FakeClock::of_runtime_gaining(-5_000),
        _ => FakeClock::of_runtime(),
    }
}

impl Host {
    pub fn new(number: usize, net: &FakeNet, arbiter: &FakeArbiter, random: &FakeRandom) -> Host {
        Host::named(format!("mds{number}"), number, net, arbiter, random)
    }

    /// A host whose directory says that it is the copy with this number.
    pub fn named(
        name: String,
        number: usize,
        net: &FakeNet,
        arbiter: &FakeArbiter,
        random: &FakeRandom,
    ) -> Host {
        let clock = clock(random);
        Host {
            number,
            name,
            net: net.clone(),
            arbiter: arbiter.of_host(Clock::fake(clock.clone())),
            clock,
            disk: Mutex::new(new_disk(random.u64())),
            index: Arc::new(Mutex::new(FakeIndex::new())),
            key_list: Arc::default(),
            has_room: Arc::new(AtomicBool::new(true)),
            process: Mutex::new(None),
            runs: AtomicU64::new(0),
            is_reserved: AtomicBool::new(false),
            random: random.fork(),
        }
    }

    pub fn process(&self) -> Option<Process> {
        self.process.lock().clone()
    }

    pub fn owned(&self) -> Option<(Process, Owned)> {
        let process = self.process()?;
        let owned = process.owned.lock().clone()?;
        Some((process, owned))
    }

    pub fn address(&self) -> String {
        format!("{}:7700", self.name)
    }

    /// Starts a process. It serves requests of other copies, and owns the store when it can.
    pub async fn start(self: &Arc<Self>, on_owned: OnOwned) {
        let run = self.runs.fetch_add(1, SeqCst) + 1;
        let platform = FakePlatform {
            clock: self.clock.clone(),
            random: self.random.fork(),
            tasks: FakeTasks::new(),
        };
        let handles = platform.platform();
        let key = ClusterKey::new([7; 32]);
        let net = self.net.host(&self.name);
        let identity =
            ProcessIdentity::new(&handles, net, self.name.clone(), Some(key.clone().into()));
        let local = identity.local_identity(Role::Mds, "store");
        let index = self.index.lock().clone();
        let send_deadline = SendDeadline::until(handles.clock.clone(), BootTime(0));
        let mut log = LogOptions::new(STORE);
        log.segment_bytes = 16 << 10;
        let copy = MetadataCopy::new(CopyOptions {
            platform: handles.clone(),
            identity: identity.clone(),
            local: local.clone(),
            id: CopyId(self.number as u64 + 1),
            run: CopyRun(run << 8 | self.number as u64),
            address: self.address(),
            shards: VirtualShards(4),
            arbiter: Arbiter::fake(self.arbiter.clone()),
            files: Arc::new(SimulatedFiles {
                disk: self.disk.lock().disk(),
                has_room: self.has_room.clone(),
                index: self.index.clone(),
                key_list: self.key_list.clone(),
                own: Mutex::new(index),
            }),
            kv: KvOptions {
                persist_bytes: 24 << 10,
                ..KvOptions::new(log)
            },
            send_deadline: send_deadline.clone(),
            may_begin: self.number == 0,
        });
        let listener = identity.net.listen(&self.address()).await;
        let server = RpcServer::start(
            listener.expect("the address is free"),
            RpcServerOptions {
                platform: handles.clone(),
                identity: local,
                cluster: STORE.cluster,
                key: Some(key),
                client_keys: Arc::new(AcceptAllClientKeys),
                tls: None,
                handlers: Handlers::none()
                    .with_service::<CopyRequest, CopyReply, _>(copy.host().clone()),
                observer: Arc::new(NoObserver),
                admission: Arc::new(AdmitAll),
                send_deadline: send_deadline.clone(),
                capacity: Capacity::for_clients(8),
            },
        );
        let owned = Arc::new(Mutex::new(None));
        *self.process.lock() = Some(Process {
            run,
            platform: platform.clone(),
            copy: copy.clone(),
            owned: owned.clone(),
            send_deadline,
            _server: Arc::new(server),
        });
        let host = self.clone();
        handles.tasks.spawn("process", async move {
            let ended = serve(&copy, &owned, &on_owned).await;
            host.ended(run, &ended, on_owned);
        });
    }

    /// The process ends by itself; another one is started.
    fn ended(self: &Arc<Self>, run: u64, why: &str, on_owned: OnOwned) {
        println!("  process {run} on {} ends: {why}", self.name);
        let host = self.clone();
        // Not within the process's tasks, which end.
        tokio::spawn(async move {
            let is_current = host.process().is_some_and(|process| process.run == run);
            if is_current && !host.is_reserved.swap(true, SeqCst) {
                host.kill(false).await;
                host.start(on_owned).await;
                host.is_reserved.store(false, SeqCst);
            }
        });
    }

    /// Ends the process. With a power loss its disk loses what was not synced.
    pub async fn kill(&self, loses_power: bool) {
        let process = self.process.lock().take();
        self.disk.lock().kill();
        self.net.kill(&self.name);
        if let Some(process) = process {
            process.platform.tasks.kill();
        }
        tokio::task::yield_now().await;
        match loses_power {
            true => self.disk.lock().crash(),
            false => self.disk.lock().restart(),
        }
        // What the former process still does reaches its own index alone.
        let index = self.index.lock().copy();
        index.crash(&Random::fake(self.random.fork()));
        *self.index.lock() = index;
    }

    /// The directory is made anew, empty.
    pub async fn wipe(&self) {
        self.kill(true).await;
        *self.disk.lock() = new_disk(self.random.u64());
        *self.index.lock() = FakeIndex::new();
    }

    /// The next sync of the disk fails.
    pub fn fail_next_sync(&self) {
        self.disk.lock().fail_sync(1);
    }

    pub fn freeze(&self) {
        if let Some(process) = self.process() {
            process.platform.tasks.freeze();
        }
    }

    pub fn thaw(&self) {
        if let Some(process) = self.process() {
            process.platform.tasks.thaw();
        }
    }
}

impl Process {
    pub fn is(&self, other: &Process) -> bool {
        Arc::ptr_eq(&self.owned, &other.owned)
    }

    pub fn is_frozen(&self) -> bool {
        self.platform.tasks.is_frozen()
    }
}

/// Runs until the process must end; returns the reason.
async fn serve(
    copy: &Arc<MetadataCopy>,
    owned: &Mutex<Option<Owned>>,
    on_owned: &OnOwned,
) -> String {
    let store = match copy.own().await {
        Ok(store) => store,
        Err(
            error @ (CopiesError::Store(_)
            | CopiesError::Failed(_)
            | CopiesError::Deposed(_)
            | CopiesError::Files(_)
            | CopiesError::SameIdentity { .. }),
        ) => {
            return error.to_string();
        }
        Err(error) => panic!("{error}"),
    };
    let kept_memory = store.kept_memory;
    let OwnedStore { kv, ownership, .. } = store;
    let ownership = Arc::new(ownership);
    on_owned(ownership.epoch().0, kept_memory);
    let stop = Arc::new(tokio::sync::Notify::new());
    *owned.lock() = Some(Owned {
        kv: kv.clone(),
        ownership: ownership.clone(),
        epoch: ownership.epoch().0,
        stop: stop.clone(),
    });
    tokio::select! {
        biased;
        why = ownership.ended() => {
            owned.lock().take();
            why
        }
        () = async { tokio::select! { biased; () = stop.notified() => {}, () = ownership.move_wanted() => {} } } => {
            owned.lock().take();
            match kv.stop(StopMode::Clean).await {
                Ok(()) => {
                    ownership.release().await;
                    "stopped in order".to_string()
                }
                Err(error) => error.to_string(),
            }
        }
    }
}
