//! The cached state of one mount: inodes with their attributes, pages and locks.

use super::cached_listing::CachedListing;
use super::cached_page::Page;
use super::dentry::{CachedDentry, DentryKey};
use gupfs_fuse::{Errno, InitFlags, InodeAttr, NodeId, Result, op};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Notify, RwLock};
use tokio::time::Instant;

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
const KIND: u32 = 0o170_000;

/// The bound of the dentry cache, unless a simulation sets another.
const DENTRIES_MAX: usize = 1 << 16;

pub struct State {
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) dentries: BTreeMap<DentryKey, CachedDentry>,
    pub(super) dentries_max: usize,
    /// Number of uses of dentries, to find those that were not used for long.
    pub(super) uses: u64,
    /// Names for which a LOOKUP is under way.
    pub(super) lookups: BTreeMap<DentryKey, Arc<Mutex<()>>>,
    /// FORGETs to send.
    pub(super) forgets: Vec<op::Forget>,
    pub epoch: u64,
    version: u64,
    /// Number of inodes that were evicted and had links: attributes of a request that was sent before are not trusted.
    pub(super) evictions: u64,
    flags: InitFlags,
}

pub struct Node {
    /// Number of replies that named the node, until FORGET.
    pub lookups: u64,
    /// Number of open files, working directories, mounted file systems and calls in progress that use it.
    pub(super) users: usize,
    /// Number of its dentries.
    pub(super) names: usize,
    /// Number of dentries in this directory, and of directories that have their last known name in it.
    pub(super) children: usize,
    /// The last known name of a directory, whether or not that dentry is still cached.
    pub(super) place: Option<DentryKey>,
    /// A removed directory: the kernel finds no name in it.
    pub dead: bool,
    pub attr: InodeAttr,
    /// End of the lifetime; None if the attributes are invalid.
    until: Option<Instant>,
    /// A time or the space has changed: stat must revalidate, a read need not.
    stat_invalid: bool,
    version: u64,
    /// A truncation or an extending write through the page cache is under way: replies with attributes are ignored.
    pub size_changes: bool,
    /// The inode's lock: held while names in a directory change, or while a file or its attributes change.
    pub lock: Arc<RwLock<()>>,
    pub pages: BTreeMap<u64, Page>,
    pub io: FileUsers,
    /// Number of stores into mappings that the server has refused: fsync(2) and close(2) report them.
    pub lost_writes: u64,
    /// The access ACL: None if not cached, Some(None) if the file has none.
    pub acl: Option<Option<Vec<u8>>>,
    /// Number of times that the ACL was dropped: a reply to an older request is not cached.
    pub acl_drops: u64,
    /// A listing has named the inode, and no program has used that name since.
    pub(super) listed: bool,
    /// The next listing of this directory asks for attributes.
    pub(super) listing_advised: bool,
    /// The directory's names, as its page cache has them.
    pub listing: Option<CachedListing>,
    /// Number of changes of a directory that this kernel has made or was told.
    pub changes: u64,
}

/// Number of opens for the page cache, and of parallel direct writes: never both at once.
#[derive(Default)]
pub struct FileUsers {
    pub cached: usize,
    pub parallel_writes: usize,
    /// Notified when a parallel write is done.
    pub done: Arc<Notify>,
}

/// The attributes that an operation needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needed {
    /// All, for stat(2).
    Stat,
    /// Size, mode and owner, for reads and permission checks.
    Basic,
}

/// What a reply with attributes does to the pages of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageEffect {
    /// The file has another size: pages behind it are dropped without being written.
    pub truncate: Option<u64>,
    /// All pages are dropped.
    pub drop: bool,
}

/// The state of the kernel when it sent a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestVersion {
    pub epoch: u64,
    /// 0: the reply is applied without a check of the version.
    pub version: u64,
    /// None: the reply is applied although an inode was evicted meanwhile.
    pub evictions: Option<u64>,
}

impl Node {
    pub(super) fn new(attr: InodeAttr) -> Node {
        Node {
            lookups: 0,
            users: 0,
            names: 0,
            children: 0,
            place: None,
            dead: false,
            attr,
            until: None,
            stat_invalid: false,
            version: 0,
            size_changes: false,
            lock: Arc::default(),
            pages: BTreeMap::new(),
            io: FileUsers::default(),
            lost_writes: 0,
            acl: None,
            acl_drops: 0,
            listed: false,
            listing_advised: false,
            listing: None,
            changes: 0,
        }
    }

    /// Whether the cached attributes are valid for `needed`.
    pub fn attributes_valid_at(&self, now: Instant, needed: Needed) -> bool {
        self.until.is_some_and(|until| now < until)
            && !(needed == Needed::Stat && self.stat_invalid)
    }

    pub fn is_directory(&self) -> bool {
        self.attr.mode & KIND == DIRECTORY
    }

    pub fn is_symlink(&self) -> bool {
        self.attr.mode & KIND == SYMLINK
    }

    pub fn is_regular(&self) -> bool {
        self.attr.mode & KIND == REGULAR
    }

    /// Forgets the cached ACL, and one that is being requested.
    pub fn drop_acl(&mut self) {
        self.acl = None;
        self.acl_drops += 1;
    }

    /// A program changed a file or used it in a way that changes its times: stat(2) asks for them.
    pub fn invalidate_times(&mut self) {
        self.stat_invalid = true;
    }
}

/// The end of a lifetime that begins now; a very long one ends after the simulation.
pub fn expiry(ttl: Duration) -> Instant {
    const LONGEST: Duration = Duration::from_secs(1 << 30);
    Instant::now() + ttl.min(LONGEST)
}

impl State {
    pub fn new(flags: InitFlags) -> State {
        let root = Node::new(InodeAttr {
            mode: DIRECTORY,
            ..InodeAttr::default()
        });
        State {
            nodes: BTreeMap::from([(NodeId::ROOT, root)]),
            dentries: BTreeMap::new(),
            dentries_max: DENTRIES_MAX,
            uses: 0,
            lookups: BTreeMap::new(),
            forgets: Vec::new(),
            epoch: 0,
            version: 1,
            evictions: 0,
            flags,
        }
    }

    fn agreed(&self, flag: InitFlags) -> bool {
        self.flags.contains(flag)
    }

    /// The state at which a request is sent now.
    pub fn request_version(&self) -> RequestVersion {
        RequestVersion {
            epoch: self.epoch,
            version: self.version,
            evictions: Some(self.evictions),
        }
    }

    pub fn node_ids(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().collect()
    }

    pub fn node(&self, node: NodeId) -> Result<&Node> {
        self.nodes.get(&node).ok_or(Errno::ESTALE)
    }

    pub fn node_mut(&mut self, node: NodeId) -> Result<&mut Node> {
        self.nodes.get_mut(&node).ok_or(Errno::ESTALE)
    }

    pub fn lock_of(&self, node: NodeId) -> Result<Arc<RwLock<()>>> {
        Ok(self.node(node)?.lock.clone())
    }

    /// Applies the attributes of a reply, unless newer ones are cached.
    pub fn apply_attributes(
        &mut self,
        node: NodeId,
        mut attr: InodeAttr,
        ttl: Duration,
        request: RequestVersion,
    ) -> PageEffect {
        let writes_back = self.agreed(InitFlags::WRITEBACK_CACHE);
        let (auto, explicit) = (
            self.agreed(InitFlags::AUTO_INVAL_DATA),
            self.agreed(InitFlags::EXPLICIT_INVAL_DATA),
        );
        let raced = request
            .evictions
            .is_some_and(|evictions| evictions != self.evictions);
        let Some(known) = self.nodes.get_mut(&node) else {
            return PageEffect::default();
        };
        let is_old = request.version != 0 && known.version > request.version;
        if is_old || known.size_changes {
            return PageEffect::default();
        }
        self.version += 1;
        known.version = self.version;
        // After an eviction it is unknown whether an invalidation has overtaken the reply.
        if !raced || known.until.is_some() {
            known.until = Some(expiry(ttl));
        }
        known.stat_invalid &= raced;
        let regular = known.is_regular();
        if writes_back && regular {
            attr.size = known.attr.size;
            attr.mtime = known.attr.mtime;
        }
        let size_changed = known.attr.size != attr.size;
        let mtime_changed = known.attr.mtime != attr.mtime;
        known.attr = attr;
        // With AUTO_INVAL_DATA, changed attributes drop pages; without EXPLICIT_INVAL_DATA, a changed size does.
        PageEffect {
            truncate: (regular && size_changed).then_some(attr.size),
            drop: regular && (size_changed && !explicit || auto && (size_changed || mtime_changed)),
        }
    }

    /// Applies the attributes of a reply to SETATTR. If an invalidation has overtaken it, only a new size is applied.
    pub fn apply_setattr(
        &mut self,
        node: NodeId,
        attr: InodeAttr,
        ttl: Duration,
        request: RequestVersion,
        truncates: bool,
    ) -> Result<PageEffect> {
        let known = self.node_mut(node)?;
        known.drop_acl();
        let old_size = known.attr.size;
        if request.version == 0 || known.version <= request.version {
            self.apply_attributes(node, attr, ttl, request);
            let known = self.node_mut(node)?;
            if truncates {
                known.attr.size = attr.size;
            }
        } else if truncates {
            known.attr.size = attr.size;
        }
        let known = self.node(node)?;
        let resized = known.is_regular() && known.attr.size != old_size;
        Ok(PageEffect {
            truncate: resized.then_some(known.attr.size),
            drop: resized,
        })
    }

    /// A change of a file's size begins or ends.
    pub fn set_size_changes(&mut self, node: NodeId, changes: bool) {
        if let Ok(known) = self.node_mut(node) {
            known.size_changes = changes;
        }
    }

    /// Invalidates the attributes of a node, and the replies in flight that have some.
    pub fn invalidate_attributes(&mut self, node: NodeId) -> Result<()> {
        let version = self.next_version();
        let known = self.node_mut(node)?;
        known.until = None;
        known.version = version;
        Ok(())
    }

    /// Invalidates the attributes of a node, but no reply in flight.
    pub fn expire_attributes(&mut self, node: NodeId) {
        if let Ok(known) = self.node_mut(node) {
            known.until = None;
        }
    }

    /// A name in a directory has changed.
    pub fn note_directory_change(&mut self, dir: NodeId) {
        self.expire_attributes(dir);
        if let Ok(known) = self.node_mut(dir) {
            known.changes += 1;
        }
    }

    /// A file was written up to `end`.
    pub fn note_write(&mut self, node: NodeId, end: u64) -> Result<()> {
        let version = self.next_version();
        let known = self.node_mut(node)?;
        known.version = version;
        known.stat_invalid = true;
        known.attr.size = known.attr.size.max(end);
        Ok(())
    }

    /// An open with O_TRUNC has truncated a file.
    pub fn note_truncation(&mut self, node: NodeId) -> Result<()> {
        let version = self.next_version();
        let known = self.node_mut(node)?;
        known.version = version;
        known.until = None;
        known.attr.size = 0;
        Ok(())
    }

    /// A READ ended at `end` before it was complete: the file has this size, unless its attributes have changed since the request.
    pub fn note_short_read(&mut self, node: NodeId, end: u64, sent: RequestVersion) -> Result<()> {
        let version = self.version + 1;
        let known = self.node_mut(node)?;
        if known.version <= sent.version && end < known.attr.size {
            known.version = version;
            known.attr.size = end;
            self.version = version;
        }
        Ok(())
    }

    /// A name of the inode was removed: one link less, none for a directory.
    pub fn note_unlink(&mut self, node: NodeId) -> Result<()> {
        let version = self.next_version();
        let known = self.node_mut(node)?;
        known.version = version;
        known.attr.nlink = match known.is_directory() {
            true => 0,
            false => known.attr.nlink.saturating_sub(1),
        };
        known.stat_invalid = true;
        Ok(())
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }
}
