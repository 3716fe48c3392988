//! Table of the inodes that are open or have a write lease here, and attribute versions that show whether a reply about another
//! inode may be stale.

use super::closed_unsynced::ClosedUnsynced;
use super::range_locks::RangeLocks;
use super::state::{DuringLeaseEnd, InodeState};
use crate::limits::ATTR_VERSION_BUCKETS;
use gupfs_platform::hash::Map;
use gupfs_proto::{Attr, FileOffset, InodeId};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tokio::sync::Notify;

/// An inode that is open or has a write lease. Lock order: `range_locks`, `reporting`, `syncing`, `flushing`, then the state's own, which is
/// never held across an await.
pub struct ActiveInode {
    pub ino: InodeId,
    pub range_locks: RangeLocks,
    /// One request to the metadata server about size, data and objects at a time: reports carry absolute values.
    pub reporting: tokio::sync::Mutex<()>,
    /// One sync of its objects at a time.
    pub syncing: tokio::sync::Mutex<()>,
    /// One flush of its unsent bytes at a time.
    pub flushing: tokio::sync::Mutex<()>,
    /// Notified when there are many unsent bytes.
    pub unsent_grown: Notify,
    /// READs for the kernel's page cache that were answered without a lock: beside a write that is not answered yet.
    unlocked_reads: AtomicU64,
    /// How often the members of mirrored stripes that this client may read have changed.
    member_changes: AtomicU64,
    state: Mutex<InodeState>,
    /// Notified when a request that ends the write lease was answered.
    lease_ended: Notify,
    pins: AtomicU32,
}

impl ActiveInode {
    /// A request is about to be sent by which the server ends the write lease, or changes what it covers; `was_reported`: it knows already what
    /// this client has changed. Until the guard is dropped, after the reply was applied, this client's state does not overlay replies that may be
    /// newer. The caller has locked `reporting`.
    pub fn start_lease_end(&self, was_reported: bool) -> EndingLease<'_> {
        self.state().start_lease_end(was_reported);
        EndingLease(self)
    }

    /// Returns when no such request is under way.
    pub async fn wait_for_lease_end(&self) {
        loop {
            let mut ended = pin!(self.lease_ended.notified());
            ended.as_mut().enable();
            if !self.state().is_lease_ending() {
                return;
            }
            ended.await;
        }
    }

    /// A READ for the page cache is about to be answered without a lock.
    pub fn start_unlocked_read(&self) {
        self.unlocked_reads.fetch_add(1, SeqCst);
    }

    pub fn unlocked_reads(&self) -> u64 {
        self.unlocked_reads.load(SeqCst)
    }

    /// Members that this client may have read are stale now, or may be.
    pub fn members_changed(&self) {
        self.member_changes.fetch_add(1, SeqCst);
    }

    pub fn member_changes(&self) -> u64 {
        self.member_changes.load(SeqCst)
    }

    pub fn state(&self) -> MutexGuard<'_, InodeState> {
        self.state.lock()
    }
}

/// The time of a request by which the server ends a write lease, or changes what it covers.
pub struct EndingLease<'a>(&'a ActiveInode);

impl Drop for EndingLease<'_> {
    fn drop(&mut self) {
        self.0.state().finish_lease_end();
        self.0.lease_ended.notify_waiters();
    }
}

pub struct InodeTable {
    /// Other clients may change inodes without a write lease here.
    shared: bool,
    inodes: RwLock<Map<InodeId, Arc<ActiveInode>>>,
    /// By bucket of inodes: the version at which one of them was last removed from the table or lost its lease.
    versions: Box<[AtomicU64]>,
    /// Counts removals from the table, released leases, and moves of the end of a file.
    newest_version: Arc<AtomicU64>,
    /// Unsynced objects of inodes that were removed from the table.
    closed_unsynced: Arc<Mutex<ClosedUnsynced>>,
}

/// The attribute version (Linux FUSE's attr_version) when a request was sent: shows later whether its reply may be stale.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttrVersion(u64);

/// Attributes of a reply with this client's state overlaid.
pub enum OverlaidAttr {
    Current(Attr, Option<Arc<ActiveInode>>),
    /// The file was open or leased here when the request was sent and is not now, or has grown here meanwhile: the reply may be older than its
    /// last change.
    MaybeStale,
    /// Whether the reply or this client's state is newer is known when the request under way that ends the lease is answered.
    LeaseEnding(Arc<ActiveInode>),
}

impl InodeTable {
    pub fn new(shared: bool, closed_unsynced: Arc<Mutex<ClosedUnsynced>>) -> Arc<InodeTable> {
        Arc::new(InodeTable {
            shared,
            inodes: RwLock::default(),
            versions: (0..ATTR_VERSION_BUCKETS)
                .map(|_| AtomicU64::new(0))
                .collect(),
            newest_version: Arc::default(),
            closed_unsynced,
        })
    }

    /// The inode's entry, created if there is none; it stays while the pin exists.
    pub fn pin(self: &Arc<Self>, ino: InodeId) -> InodePin {
        if let Some(file) = self.inodes.read().get(&ino) {
            return self.pinned(file);
        }
        let mut files = self.inodes.write();
        let file = files.entry(ino).or_insert_with(|| {
            Arc::new(ActiveInode {
                ino,
                range_locks: RangeLocks::default(),
                reporting: tokio::sync::Mutex::default(),
                syncing: tokio::sync::Mutex::default(),
                flushing: tokio::sync::Mutex::default(),
                unsent_grown: Notify::new(),
                unlocked_reads: AtomicU64::new(0),
                member_changes: AtomicU64::new(0),
                state: Mutex::new(InodeState::new(self.shared, self.newest_version.clone())),
                lease_ended: Notify::new(),
                pins: AtomicU32::new(0),
            })
        });
        self.pinned(file)
    }

    /// Counted under the lock that `remove_if_unused` takes to remove, so no pinned entry is removed.
    fn pinned(self: &Arc<Self>, file: &Arc<ActiveInode>) -> InodePin {
        file.pins.fetch_add(1, Ordering::AcqRel);
        InodePin {
            table: self.clone(),
            file: file.clone(),
        }
    }

    /// The entry, pinned, if the inode is in the table.
    pub fn find(self: &Arc<Self>, ino: InodeId) -> Option<InodePin> {
        let files = self.inodes.read();
        files.get(&ino).map(|file| self.pinned(file))
    }

    pub fn get(&self, ino: InodeId) -> Option<Arc<ActiveInode>> {
        self.inodes.read().get(&ino).cloned()
    }

    /// All entries, pinned, in the order of inodes.
    pub fn all(self: &Arc<Self>) -> Vec<InodePin> {
        let files = self.inodes.read();
        let mut all: Vec<InodePin> = files.values().map(|file| self.pinned(file)).collect();
        drop(files);
        all.sort_by_key(|pin| pin.ino);
        all
    }

    /// Taken before a request is sent.
    pub fn attr_version(&self) -> AttrVersion {
        AttrVersion(self.newest_version.load(Ordering::Acquire))
    }

    pub fn changed_since(&self, attr_version: AttrVersion, ino: InodeId) -> bool {
        self.version_of(ino).load(Ordering::Acquire) > attr_version.0
    }

    /// Overlays the server's reply with this client's authoritative state; the request was sent at `attr_version`.
    pub fn overlay(&self, attr_version: AttrVersion, attr: Attr) -> OverlaidAttr {
        if let Some(file) = self.get(attr.ino) {
            let mut state = file.state();
            state.note_attr(attr);
            let meant = state.during_lease_end(&attr);
            if meant == DuringLeaseEnd::Unknown {
                drop(state);
                return OverlaidAttr::LeaseEnding(file);
            }
            let is_authoritative = state.is_authoritative();
            let is_known = is_authoritative || state.has_concurrent_write_lease();
            // Another client's write may have moved the end further before this one's began, and after the others were asked.
            let has_grown =
                state.grown_at() > attr_version.0 && state.end_of_file() > FileOffset(attr.size);
            if is_known && !is_authoritative && has_grown {
                return OverlaidAttr::MaybeStale;
            }
            if meant == DuringLeaseEnd::Overlaid && is_known {
                let attr = state.overlay(attr);
                drop(state);
                return OverlaidAttr::Current(attr, Some(file));
            }
        }
        if self.changed_since(attr_version, attr.ino) {
            OverlaidAttr::MaybeStale
        } else {
            OverlaidAttr::Current(attr, None)
        }
    }

    /// The state here stops being authoritative: replies to earlier requests may be stale. Called before another task can see
    /// that.
    pub fn invalidate_replies(&self, ino: InodeId) {
        if self.shared {
            self.bump_version(ino);
        }
    }

    fn bump_version(&self, ino: InodeId) {
        let now = self.newest_version.fetch_add(1, Ordering::AcqRel) + 1;
        self.version_of(ino).fetch_max(now, Ordering::AcqRel);
    }

    fn version_of(&self, ino: InodeId) -> &AtomicU64 {
        // Fibonacci hashing: inode numbers are sequential.
        let hash = ino.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.versions[hash as usize % ATTR_VERSION_BUCKETS]
    }

    fn remove_if_unused(&self, file: &ActiveInode) {
        let mut files = self.inodes.write();
        if file.pins.load(Ordering::Acquire) > 0 {
            return;
        }
        let state = file.state();
        if state.must_stay_in_table() {
            return;
        }
        self.closed_unsynced
            .lock()
            .add(state.objects.unsynced(file.ino));
        // The version first: a task that finds no entry then finds the new version.
        self.bump_version(file.ino);
        files.remove(&file.ino);
    }
}

/// Keeps an inode's entry in the table.
pub struct InodePin {
    table: Arc<InodeTable>,
    file: Arc<ActiveInode>,
}

impl Deref for InodePin {
    type Target = ActiveInode;
    fn deref(&self) -> &ActiveInode {
        &self.file
    }
}

impl Drop for InodePin {
    fn drop(&mut self) {
        if self.file.pins.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.table.remove_if_unused(&self.file);
        }
    }
}
