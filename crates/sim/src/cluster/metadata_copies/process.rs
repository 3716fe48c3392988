//! One process of a copy, from its start until it must end: what `gupfs mds` does where the metadata has copies.

use super::owners::Owners;
use super::standby::Standby;
use crate::cluster::CLUSTER;
use crate::cluster::metadata_parts::{ServedMetadata, mds_options};
use crate::cluster::request_monitor::{MonitoredMeta, RequestMonitor};
use gupfs_copies::{CopiesError, MetadataCopy, Ownership};
use gupfs_mds::{Mds, MetaHandler};
use gupfs_platform::fake::{FakeDisk, FakePlatform};
use gupfs_proto::{CopyRun, OwnerEpoch};
use gupfs_rpc::{LocalIdentity, OssConnections, ProcessIdentity, RpcServer, SendDeadline};
use gupfs_store::kv::{Kv, KvRecovery};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;

/// A deposed owner gives up what it has of its right for no longer than this.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(500);

/// A process, for its host.
#[derive(Clone)]
pub struct CopyProcess {
    pub run: CopyRun,
    pub platform: FakePlatform,
    pub copy: Arc<MetadataCopy>,
    pub send_deadline: SendDeadline,
    pub server: Arc<RpcServer>,
    pub state: Arc<ProcessState>,
}

/// What a process has reached.
#[derive(Default)]
pub struct ProcessState {
    owned: Mutex<Option<Owned>>,
    /// Why it must end.
    pub ended: OnceLock<String>,
}

/// What a process owns that serves the metadata.
#[derive(Clone)]
pub struct Owned {
    pub epoch: OwnerEpoch,
    pub served: ServedMetadata,
    pub ownership: Arc<Ownership>,
    /// Notified when the process must stop in order.
    pub stop: Arc<Notify>,
}

impl CopyProcess {
    /// The metadata, if this process serves it.
    pub fn owned(&self) -> Option<Owned> {
        self.state.owned.lock().clone()
    }

    /// Whether what it says now reaches anybody.
    pub fn may_answer(&self) -> bool {
        !self.platform.tasks.is_frozen() && self.send_deadline.may_send()
    }
}

/// What a process needs besides its copy.
pub struct ProcessParts {
    pub host: usize,
    pub disk: FakeDisk,
    pub identity: ProcessIdentity,
    pub local: LocalIdentity,
    pub standby: Arc<Standby>,
    pub monitor: Arc<RequestMonitor>,
    pub owners: Arc<Owners>,
}

impl ProcessParts {
    /// Runs until the process must end; returns the reason.
    pub async fn run(&self, process: &CopyProcess) -> String {
        let store = match process.copy.own().await {
            Ok(store) => store,
            Err(
                error @ (CopiesError::Store(_)
                | CopiesError::Failed(_)
                | CopiesError::Deposed(_)
                | CopiesError::Files(_)),
            ) => {
                return error.to_string();
            }
            Err(error) => {
                (self.monitor).note_broken_promise(format!("a copy refuses to run: {error}"));
                return error.to_string();
            }
        };
        let epoch = store.ownership.epoch();
        let clock = &process.platform.clock;
        self.owners
            .begin(self.host, epoch, store.kept_memory, clock);
        let ownership = Arc::new(store.ownership);
        let opened = (store.kv, store.found, store.kept_memory);
        let ended = self.serve(process, &ownership, opened);
        let why = ended.await;
        process.state.owned.lock().take();
        why
    }

    async fn serve(
        &self,
        process: &CopyProcess,
        ownership: &Arc<Ownership>,
        (kv, found, kept_memory): (Arc<Kv>, KvRecovery, bool),
    ) -> String {
        let platform = process.platform.platform();
        let records = Arc::downgrade(&kv);
        let local = self.local.clone();
        let oss_connections = OssConnections::new(&self.identity, local, CLUSTER, "");
        let dial = (&self.identity, oss_connections);
        let mut options = mds_options((kv, found), self.disk.disk(), platform, dial);
        options.hands_over = true;
        options.kept_memory = kept_memory;
        let started = tokio::select! {
            biased;
            why = ownership.ended() => return why,
            started = Mds::start(options) => started,
        };
        let mds = match started {
            Ok(mds) => mds,
            Err(error) => return format!("its metadata server did not start: {error:?}"),
        };
        let monitored = MonitoredMeta {
            // Root squash applies to other hosts.
            handler: MetaHandler::new(mds.clone(), true),
            monitor: self.monitor.clone(),
            send_deadline: process.send_deadline.clone(),
        };
        self.standby.own(monitored, &mds);
        let stop = Arc::new(Notify::new());
        let served = ServedMetadata {
            mds: mds.clone(),
            records,
        };
        *process.state.owned.lock() = Some(Owned {
            epoch: ownership.epoch(),
            served,
            ownership: ownership.clone(),
            stop: stop.clone(),
        });
        tokio::select! {
            biased;
            why = ownership.ended() => {
                self.monitor.count("deposed owner that lived");
                let clock = process.platform.platform().clock;
                tokio::select! {
                    biased;
                    () = ownership.release() => {}
                    () = clock.sleep(RELEASE_TIMEOUT) => {}
                }
                why
            }
            () = stop.notified() => self.hand_over(process, &mds, ownership).await,
            why = mds.wait_for_failure() => why,
        }
    }

    /// Stops in order: another copy owns the metadata at once.
    async fn hand_over(&self, process: &CopyProcess, mds: &Mds, ownership: &Ownership) -> String {
        mds.revoke_all_leases().await;
        process.server.stop();
        let stopped = tokio::select! {
            biased;
            stopped = mds.stop() => stopped,
            why = ownership.ended() => return why,
        };
        ownership.release().await;
        match stopped {
            Ok(()) => {
                self.monitor.count("orderly hand-over");
                "it stopped in order".into()
            }
            Err(error) => error.to_string(),
        }
    }
}
