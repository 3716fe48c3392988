//! The cached state of one mount, and the locks.

use super::pages::Page;
use gupfs_fuse::{EntryReply, Errno, InitFlags, InodeAttr, NodeId, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, RwLock};
use tokio::time::Instant;

const REGULAR: u32 = 0o100_000;
const KIND: u32 = 0o170_000;

/// A directory, and a name in it.
pub type DentryKey = (NodeId, Vec<u8>);

pub struct State {
    nodes: BTreeMap<NodeId, Node>,
    pub dentries: BTreeMap<DentryKey, CachedDentry>,
    /// Names that a file system is mounted on.
    pub covered: BTreeSet<DentryKey>,
    pub epoch: u64,
    version: u64,
    flags: InitFlags,
}

pub struct Node {
    /// Number of replies that named the node, until FORGET.
    pub lookups: u64,
    pub attr: InodeAttr,
    /// End of the lifetime; None if the attributes are invalid.
    until: Option<Instant>,
    /// A write has changed times and space: stat must revalidate, a read need not.
    modified: bool,
    version: u64,
    /// The inode's lock: held while names in a directory change, or while a file is written.
    pub lock: Arc<RwLock<()>>,
    pub pages: BTreeMap<u64, Page>,
    pub users: FileUsers,
}

/// Number of opens for the page cache, and of parallel direct writes: never both at once.
#[derive(Default)]
pub struct FileUsers {
    pub cached: usize,
    pub parallel_writes: usize,
    /// Notified when a parallel write is done.
    pub done: Arc<Notify>,
}

/// A cached dentry with the end of its lifetime.
pub struct CachedDentry {
    /// None: a negative dentry.
    pub node: Option<NodeId>,
    pub until: Instant,
    pub epoch: u64,
}

impl Node {
    fn new(attr: InodeAttr) -> Node {
        Node {
            lookups: 0,
            attr,
            until: None,
            modified: false,
            version: 0,
            lock: Arc::default(),
            pages: BTreeMap::new(),
            users: FileUsers::default(),
        }
    }

    /// Whether the cached attributes are valid: `all` of them for stat(2), or those that a read needs.
    pub fn attributes_valid_at(&self, now: Instant, all: bool) -> bool {
        self.until.is_some_and(|until| now < until) && !(all && self.modified)
    }
}

/// The end of a lifetime that begins now; a very long one ends after the simulation.
fn expiry(ttl: Duration) -> Instant {
    const LONGEST: Duration = Duration::from_secs(1 << 30);
    Instant::now() + ttl.min(LONGEST)
}

impl State {
    pub fn new(flags: InitFlags) -> State {
        let root = Node::new(InodeAttr::default());
        State {
            nodes: BTreeMap::from([(NodeId::ROOT, root)]),
            dentries: BTreeMap::new(),
            covered: BTreeSet::new(),
            epoch: 0,
            version: 1,
            flags,
        }
    }

    pub fn agreed(&self, flag: InitFlags) -> bool {
        self.flags.contains(flag)
    }

    /// The version, to be read before a request whose reply has attributes.
    pub fn version(&self) -> u64 {
        self.version
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

    /// Returns the cached dentry if it is valid. A dentry of an older epoch is removed, with the file system mounted on it.
    pub fn valid_dentry(
        &mut self,
        key: &DentryKey,
        keep_covering_mount: bool,
    ) -> Option<Option<NodeId>> {
        let dentry = self.dentries.get(key)?;
        if dentry.epoch < self.epoch {
            self.dentries.remove(key);
            if !keep_covering_mount {
                self.covered.remove(key);
            }
            return None;
        }
        (Instant::now() < dentry.until).then_some(dentry.node)
    }

    /// Applies a reply that names a node, and counts a lookup. A new node takes the attributes unchecked. Returns whether the
    /// node's pages must be dropped.
    pub fn add_dentry(
        &mut self,
        key: DentryKey,
        entry: &EntryReply,
        request_version: RequestVersion,
    ) -> bool {
        let fresh = !self.nodes.contains_key(&entry.node);
        let node = self.nodes.entry(entry.node);
        node.or_insert_with(|| Node::new(entry.attr)).lookups += 1;
        let dentry = CachedDentry {
            node: Some(entry.node),
            until: expiry(entry.name_ttl),
            epoch: request_version.epoch,
        };
        self.dentries.insert(key, dentry);
        let version = if fresh { 0 } else { request_version.version };
        self.apply_attributes(entry.node, entry.attr, entry.attr_ttl, version)
    }

    /// Applies a reply that there is no such name.
    pub fn add_negative_dentry(
        &mut self,
        key: DentryKey,
        ttl: Duration,
        request_version: RequestVersion,
    ) {
        let dentry = CachedDentry {
            node: None,
            until: expiry(ttl),
            epoch: request_version.epoch,
        };
        self.dentries.insert(key, dentry);
    }

    /// Applies the attributes of a reply, unless newer ones are cached. `version` 0: without that check. Returns whether the
    /// node's pages must be dropped.
    pub fn apply_attributes(
        &mut self,
        node: NodeId,
        mut attr: InodeAttr,
        ttl: Duration,
        version: u64,
    ) -> bool {
        // With AUTO_INVAL_DATA, changed attributes drop pages; without EXPLICIT_INVAL_DATA, a changed size does.
        let writes_back = self.agreed(InitFlags::WRITEBACK_CACHE);
        let (auto, explicit) = (
            self.agreed(InitFlags::AUTO_INVAL_DATA),
            self.agreed(InitFlags::EXPLICIT_INVAL_DATA),
        );
        let Some(known) = self.nodes.get_mut(&node) else {
            return false;
        };
        if version != 0 && known.version > version {
            return false;
        }
        self.version += 1;
        known.version = self.version;
        known.until = Some(expiry(ttl));
        known.modified = false;
        let regular = attr.mode & KIND == REGULAR;
        if writes_back && regular {
            attr.size = known.attr.size;
            attr.mtime = known.attr.mtime;
        }
        let size_changed = known.attr.size != attr.size;
        let mtime_changed = known.attr.mtime != attr.mtime;
        known.attr = attr;
        regular && (auto && (size_changed || mtime_changed) || !explicit && size_changed)
    }

    /// Invalidates the attributes of a node, and the replies in flight that have some.
    pub fn invalidate_attributes(&mut self, node: NodeId) -> Result<()> {
        self.version += 1;
        let version = self.version;
        let known = self.node_mut(node)?;
        known.until = None;
        known.version = version;
        Ok(())
    }

    /// A file was written up to `end`.
    pub fn note_write(&mut self, node: NodeId, end: u64) -> Result<()> {
        self.version += 1;
        let version = self.version;
        let known = self.node_mut(node)?;
        known.version = version;
        known.modified = true;
        known.attr.size = known.attr.size.max(end);
        Ok(())
    }
}

/// The epoch and version at which a request was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestVersion {
    pub epoch: u64,
    /// 0: the reply is applied without a check of the version.
    pub version: u64,
}
