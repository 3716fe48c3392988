//! # owner: this host owns the metadata for one epoch
//!
//! Owns   the lease and the deadline for answers, sending the log to the copies that count, striking those that fail, bringing others up to
//!        date.
//! Never  decides that this host becomes the owner; changes the register of a later epoch.
//! Enter  at `Ownership::begin`, whose `copies` the log is opened with, then `Ownership::serve`.

mod administer;
mod join;
mod key_list;
mod lag;
mod lease;
mod ship;
mod snapshot;
mod strike;
mod watch;

pub use lag::CopyLag;
pub use ship::Shipper;
pub use strike::failure_of;

use crate::files::CopyFiles;
use crate::peers::{CopyPeer, CopyPeers};
use crate::register::Register;
use crate::register_access::RegisterAccess;
use bytes::Bytes;
use gupfs_platform::arbiter::ArbiterLease;
use gupfs_platform::{BootTime, Platform, Task};
use gupfs_proto::copy::LogPosition;
use gupfs_proto::{CopyId, CopyRun, OwnerEpoch, Seq};
use gupfs_rpc::SendDeadline;
use gupfs_store::kv::Kv;
use gupfs_store::log::{CopySet, StoreId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, Weak};
use tokio::sync::Notify;

/// The ownership of one epoch. Dropped without `release` it ends as if the process had been killed.
pub struct Ownership {
    shared: Arc<OwnerShared>,
    tasks: Mutex<Vec<Task<()>>>,
}

pub struct OwnerShared {
    pub platform: Platform,
    pub store: StoreId,
    pub epoch: OwnerEpoch,
    pub register: Arc<RegisterAccess>,
    pub peers: Arc<CopyPeers>,
    pub send_deadline: SendDeadline,
    /// The other copies that count, and those that may count because a change of the register is under way.
    pub counting: Mutex<BTreeMap<CopyId, CopyPeer>>,
    /// Processes that are brought up to date.
    joining: Mutex<BTreeSet<(CopyId, CopyRun)>>,
    /// Where the copies that count end. A task that sends records, or counts another copy, holds this.
    turn: tokio::sync::Mutex<LogPosition>,
    lag: Mutex<BTreeMap<CopyId, CopyLag>>,
    /// When processes were struck because they did not answer in time.
    slow: Mutex<BTreeMap<(CopyId, CopyRun), Vec<BootTime>>>,
    lease: Mutex<Option<ArbiterLease>>,
    right: Mutex<lease::Right>,
    files: Arc<dyn CopyFiles>,
    /// The list of the clients' keys that the copies that count have.
    key_list: Mutex<Option<Bytes>>,
    /// An administrator has another copy own the metadata.
    is_moving: AtomicBool,
    move_notify: Notify,
    kv: OnceLock<Weak<Kv>>,
    /// Why this host is the owner no more.
    deposed: OnceLock<String>,
    deposed_notify: Notify,
}

/// What an ownership begins with.
pub struct OwnershipInput {
    pub platform: Platform,
    pub id: CopyId,
    pub files: Arc<dyn CopyFiles>,
    pub store: StoreId,
    pub register: Arc<RegisterAccess>,
    pub peers: Arc<CopyPeers>,
    pub send_deadline: SendDeadline,
    /// As this host has written it.
    pub taken: Register,
    pub lease: ArbiterLease,
    /// Until when the lease is surely alive.
    pub alive_until: BootTime,
}

impl Ownership {
    /// This host has taken the register: its lease is renewed from now on.
    pub fn begin(input: OwnershipInput) -> Ownership {
        let mut counting = BTreeMap::new();
        for member in input
            .taken
            .counting()
            .filter(|member| member.id != input.id)
        {
            let peer = (input.peers).copy_at(&member.address, member.id, Some(member.run));
            counting.insert(member.id, peer);
        }
        let shared = Arc::new(OwnerShared {
            store: input.store,
            epoch: input.taken.epoch,
            register: input.register,
            peers: input.peers,
            send_deadline: input.send_deadline,
            counting: Mutex::new(counting),
            joining: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            lag: Mutex::default(),
            slow: Mutex::default(),
            lease: Mutex::new(Some(input.lease)),
            right: Mutex::new(lease::Right::by_lease(input.alive_until)),
            files: input.files,
            key_list: Mutex::default(),
            is_moving: AtomicBool::new(false),
            move_notify: Notify::new(),
            kv: OnceLock::new(),
            deposed: OnceLock::new(),
            deposed_notify: Notify::new(),
            platform: input.platform,
        });
        let tasks = &shared.platform.tasks;
        let lease = tasks.spawn("owner's lease", shared.clone().keep_right());
        Ownership {
            shared,
            tasks: Mutex::new(vec![lease]),
        }
    }

    pub fn epoch(&self) -> OwnerEpoch {
        self.shared.epoch
    }

    pub(crate) fn shared(&self) -> &Arc<OwnerShared> {
        &self.shared
    }

    /// What the log is opened with. `end`: where the copies that count end, as the owner's own log does.
    pub async fn copies(&self, end: LogPosition) -> CopySet {
        *self.shared.turn.lock().await = end;
        CopySet::new(Arc::new(Shipper(self.shared.clone())))
    }

    /// The store is open: other processes are brought up to date from now on.
    pub fn serve(&self, kv: &Arc<Kv>) {
        // Set once: an ownership has one store.
        let _ = self.shared.kv.set(Arc::downgrade(kv));
        let tasks = &self.shared.platform.tasks;
        let watching = tasks.spawn("joining copies", self.shared.clone().watch_joining());
        self.tasks.lock().push(watching);
    }

    /// Returns the reason as soon as this host does not own the metadata any more. The process must end.
    pub async fn ended(&self) -> String {
        self.shared.wait_deposed().await
    }

    /// Ends the ownership after the store was closed in order: a copy takes over at once.
    pub async fn release(&self) {
        self.stop_tasks();
        self.shared.send_deadline.end();
        self.shared.release().await;
    }

    /// The owner's last batch; None once its store is closed.
    pub fn last(&self) -> Option<Seq> {
        let kv = self.shared.kv.get()?.upgrade()?;
        Some(kv.last_seq())
    }

    /// Whether this process may answer now, and what stands in the way of its right.
    pub fn right(&self) -> lease::RightStatus {
        self.shared.right_status()
    }

    /// How far each copy is.
    pub fn lag(&self) -> Vec<CopyLag> {
        self.shared.lag()
    }

    fn stop_tasks(&self) {
        for task in self.tasks.lock().iter() {
            task.stop();
        }
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        self.stop_tasks();
    }
}

impl OwnerShared {
    /// Another host owns the metadata: this one answers nothing more.
    pub fn depose(&self, why: String) {
        self.send_deadline.end();
        if self.deposed.set(why).is_ok() {
            let why = self.deposed.get().map(String::as_str);
            tracing::warn!(
                epoch = self.epoch.0,
                why,
                "this host does not own the metadata any more"
            );
        }
        self.deposed_notify.notify_waiters();
    }

    pub fn is_deposed(&self) -> bool {
        self.deposed.get().is_some()
    }

    async fn wait_deposed(&self) -> String {
        loop {
            let mut changed = std::pin::pin!(self.deposed_notify.notified());
            changed.as_mut().enable();
            if let Some(why) = self.deposed.get() {
                return why.clone();
            }
            changed.await;
        }
    }

    pub fn counting(&self) -> Vec<CopyPeer> {
        self.counting.lock().values().cloned().collect()
    }
}
