//! A host that has a copy of the metadata.

use super::copy_store::CopyStore;
use super::owners::Owners;
use super::process::{CopyProcess, ProcessParts};
use super::standby::Standby;
use crate::cluster::CLUSTER;
use crate::cluster::host::{Host, HostOptions};
use crate::cluster::metadata_parts::{SHARDS, log_options};
use crate::cluster::request_monitor::RequestMonitor;
use gupfs_copies::{CopyOptions, MetadataCopy};
use gupfs_platform::fake::{FakeArbiter, FakePlatform};
use gupfs_platform::{Arbiter, BootTime, Clock, Tasks};
use gupfs_proto::cluster::{ClusterReply, ClusterRequest};
use gupfs_proto::copy::{CopyReply, CopyRequest};
use gupfs_proto::{CopyId, CopyRun};
use gupfs_rpc::{
    AcceptAllClientKeys, Capacity, Handlers, Role, RpcServer, RpcServerOptions, SendDeadline,
};
use gupfs_store::kv::KvOptions;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// The index is persisted, and the log trimmed, after so many bytes: a copy that was away for long needs a snapshot.
const PERSIST_BYTES: u64 = 96 << 10;

pub struct CopyHost {
    pub host: Host,
    pub number: usize,
    pub arbiter: FakeArbiter,
    pub store: CopyStore,
    monitor: Arc<RequestMonitor>,
    owners: Arc<Owners>,
    process: Mutex<Option<CopyProcess>>,
    /// Processes so far.
    runs: AtomicU64,
    /// A fault concerns this host: only its task ends and starts processes here.
    is_reserved: AtomicBool,
    /// Outlive the host's processes, as systemd does.
    tasks: Tasks,
}

impl CopyHost {
    pub fn new(
        options: &HostOptions,
        number: usize,
        arbiter: &FakeArbiter,
        owners: &Arc<Owners>,
    ) -> CopyHost {
        let host = options.host(&format!("mds{number}"));
        CopyHost {
            arbiter: arbiter.of_host(Clock::fake(host.clock.clone())),
            store: CopyStore::new(host.disk()),
            tasks: host.platform().platform().tasks,
            host,
            number,
            monitor: options.monitor.clone(),
            owners: owners.clone(),
            process: Mutex::new(None),
            runs: AtomicU64::new(0),
            is_reserved: AtomicBool::new(false),
        }
    }

    pub fn id(&self) -> CopyId {
        CopyId(self.number as u64 + 1)
    }

    pub fn address(&self) -> String {
        format!("{}:7700", self.host.name)
    }

    pub fn process(&self) -> Option<CopyProcess> {
        self.process.lock().clone()
    }

    /// Reserves the host for a fault. Returns false if another task has reserved it.
    pub fn reserve(&self) -> bool {
        !self.is_reserved.swap(true, SeqCst)
    }

    pub fn release(&self) {
        self.is_reserved.store(false, SeqCst);
    }

    pub fn is_reserved(&self) -> bool {
        self.is_reserved.load(SeqCst)
    }

    /// Starts a process. It serves the other copies, and owns the metadata when it can.
    pub async fn start(self: &Arc<Self>) {
        let run = self.runs.fetch_add(1, SeqCst) + 1;
        let run = CopyRun(run << 8 | self.number as u64);
        let platform = self.host.platform();
        let (process, parts) = self.new_process(run, platform).await;
        *self.process.lock() = Some(process.clone());
        let host = self.clone();
        let tasks = process.platform.platform().tasks;
        tasks.spawn("metadata copy", async move {
            let why = parts.run(&process).await;
            host.process_ended(&process, why);
        });
    }

    async fn new_process(
        &self,
        run: CopyRun,
        platform: FakePlatform,
    ) -> (CopyProcess, ProcessParts) {
        let handles = platform.platform();
        let send_deadline = SendDeadline::until(handles.clock.clone(), BootTime(0));
        let identity = self.host.identity(&platform);
        let identity = identity.with_send_deadline(send_deadline.clone());
        let local = identity.local_identity(Role::Mds, "store");
        let copy = MetadataCopy::new(CopyOptions {
            platform: handles.clone(),
            identity: identity.clone(),
            local: local.clone(),
            id: self.id(),
            run,
            address: self.address(),
            shards: SHARDS,
            arbiter: Arbiter::fake(self.arbiter.clone()),
            files: self.store.files(&self.monitor),
            kv: KvOptions {
                persist_bytes: PERSIST_BYTES,
                ..KvOptions::new(log_options())
            },
            send_deadline: send_deadline.clone(),
            may_begin: self.number == 0 && run.0 >> 8 == 1,
        });
        let standby = Standby::new(&copy, handles.clock.clone());
        let listener = identity.net.listen(&self.address()).await;
        let options = RpcServerOptions {
            tls: None,
            platform: handles,
            identity: local.clone(),
            cluster: CLUSTER,
            key: identity.cluster_key(),
            client_keys: Arc::new(AcceptAllClientKeys),
            handlers: Handlers::none()
                .with_peer_handler(standby.clone())
                .with_service::<ClusterRequest, ClusterReply, _>(standby.clone())
                .with_service::<CopyRequest, CopyReply, _>(copy.host().clone()),
            observer: standby.clone(),
            capacity: Capacity::for_clients(64),
            admission: standby.clone(),
            send_deadline: send_deadline.clone(),
        };
        let listener = listener.expect("no other process listens there");
        let process = CopyProcess {
            run,
            platform,
            copy,
            send_deadline,
            server: Arc::new(RpcServer::start(listener, options)),
            state: Arc::default(),
        };
        let parts = ProcessParts {
            host: self.number,
            disk: self.store.disk.clone(),
            identity,
            local,
            standby,
            monitor: self.monitor.clone(),
            owners: self.owners.clone(),
        };
        (process, parts)
    }

    /// The process ends by itself: another one is started, unless a fault concerns the host.
    fn process_ended(self: &Arc<Self>, process: &CopyProcess, why: String) {
        self.owners.note_process_ended(&self.host.name, &why);
        // Once: it is the last thing that the process does.
        let _ = process.state.ended.set(why);
        let (host, run) = (self.clone(), process.run);
        self.tasks.spawn("start again", async move {
            let is_current = host.process().is_some_and(|process| process.run == run);
            if is_current && host.reserve() {
                host.end(false).await;
                host.start().await;
                host.release();
            }
        });
    }

    /// Ends the process without a shutdown. With `power_loss`, the disk loses unsynced bytes.
    pub async fn end(&self, power_loss: bool) {
        self.store.disk.kill();
        let process = self.process.lock().take();
        if let Some(process) = process {
            self.host.end(&process.platform).await;
            if let Some(owned) = process.owned() {
                self.owners.end(owned.epoch);
            }
        }
        if power_loss {
            self.owners.lose_power();
        }
        self.store.restart(power_loss, &self.host.random());
    }

    /// The directory is lost with its host, and made anew.
    pub async fn lose_directory(&self) {
        self.end(true).await;
        self.store.clear().await;
    }

    /// Stops the process, as SIGSTOP does, until `thaw`.
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
