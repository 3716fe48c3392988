//! What the kernel keeps of one mount: pure but for the locks that it hands out.

use super::pages::Page;
use gupfs_fuse::{EntryReply, Errno, InitFlags, InodeAttr, NodeId, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, RwLock};
use tokio::time::Instant;

const REGULAR: u32 = 0o100_000;
const KIND: u32 = 0o170_000;

/// A name in a directory.
pub type Place = (NodeId, Vec<u8>);

pub struct State {
    nodes: BTreeMap<NodeId, Node>,
    pub names: BTreeMap<Place, Name>,
    /// Names on which something is mounted.
    pub covered: BTreeSet<Place>,
    pub epoch: u64,
    version: u64,
    flags: InitFlags,
}

pub struct Node {
    /// Answers that named it, until FORGET.
    pub lookups: u64,
    pub attr: InodeAttr,
    /// None: not believed.
    until: Option<Instant>,
    /// Times and space were changed by a write: stat asks, reading does not.
    modified: bool,
    version: u64,
    /// The inode's lock: of a directory while names in it change, of a file while it is written.
    pub lock: Arc<RwLock<()>>,
    pub pages: BTreeMap<u64, Page>,
    pub doors: Doors,
}

/// Counts the users of a file through the page cache, and the parallel direct writers: never both at once.
#[derive(Default)]
pub struct Doors {
    pub cached: usize,
    pub beside: usize,
    /// One of those who wrote beside others is done.
    pub done: Arc<Notify>,
}

/// A name that is known, and until when.
pub struct Name {
    /// None: there is no such name.
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
            doors: Doors::default(),
        }
    }

    /// For stat(2) all of them, for reading the size.
    pub fn believed_at(&self, now: Instant, all: bool) -> bool {
        self.until.is_some_and(|until| now < until) && !(all && self.modified)
    }
}

/// When a lifetime that begins now ends; a very long one ends after the simulation.
fn after(ttl: Duration) -> Instant {
    const LONGEST: Duration = Duration::from_secs(1 << 30);
    Instant::now() + ttl.min(LONGEST)
}

impl State {
    pub fn new(flags: InitFlags) -> State {
        let root = Node::new(InodeAttr::default());
        State {
            nodes: BTreeMap::from([(NodeId::ROOT, root)]),
            names: BTreeMap::new(),
            covered: BTreeSet::new(),
            epoch: 0,
            version: 1,
            flags,
        }
    }

    pub fn agreed(&self, flag: InitFlags) -> bool {
        self.flags.contains(flag)
    }

    /// To be noted before a request whose answer brings attributes.
    pub fn version(&self) -> u64 {
        self.version
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

    /// A name that may be believed now. One of an older epoch is gone, and what is mounted on it.
    pub fn believed(&mut self, place: &Place, keep_cover: bool) -> Option<Option<NodeId>> {
        let name = self.names.get(place)?;
        if name.epoch < self.epoch {
            self.names.remove(place);
            if !keep_cover {
                self.covered.remove(place);
            }
            return None;
        }
        (Instant::now() < name.until).then_some(name.node)
    }

    /// An answer that names a node: counts as a lookup. A node that was not known takes the attributes as they are.
    /// True if pages are to be dropped.
    pub fn entry(&mut self, place: Place, entry: &EntryReply, asked: Asked) -> bool {
        let fresh = !self.nodes.contains_key(&entry.node);
        let node = self.nodes.entry(entry.node);
        node.or_insert_with(|| Node::new(entry.attr)).lookups += 1;
        let name = Name {
            node: Some(entry.node),
            until: after(entry.name_ttl),
            epoch: asked.epoch,
        };
        self.names.insert(place, name);
        let version = if fresh { 0 } else { asked.version };
        self.attributes(entry.node, entry.attr, entry.attr_ttl, version)
    }

    /// An answer that says that there is no such name.
    pub fn absent(&mut self, place: Place, ttl: Duration, asked: Asked) {
        let name = Name {
            node: None,
            until: after(ttl),
            epoch: asked.epoch,
        };
        self.names.insert(place, name);
    }

    /// Attributes as an answer brings them; nothing if it was asked for before something newer was known. `version` 0:
    /// whatever is known. True if pages are to be dropped.
    pub fn attributes(
        &mut self,
        node: NodeId,
        mut attr: InodeAttr,
        ttl: Duration,
        version: u64,
    ) -> bool {
        // With both, pages follow attributes.
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
        known.until = Some(after(ttl));
        known.modified = false;
        let regular = attr.mode & KIND == REGULAR;
        if writes_back && regular {
            attr.size = known.attr.size;
            attr.mtime = known.attr.mtime;
        }
        let resized = known.attr.size != attr.size;
        let touched = known.attr.mtime != attr.mtime;
        known.attr = attr;
        regular && (auto && (resized || touched) || !explicit && resized)
    }

    /// What is known of a node's attributes is not believed any more, and neither are answers on their way.
    pub fn doubt(&mut self, node: NodeId) -> Result<()> {
        self.version += 1;
        let version = self.version;
        let known = self.node_mut(node)?;
        known.until = None;
        known.version = version;
        Ok(())
    }

    /// A file was written up to `end`.
    pub fn wrote(&mut self, node: NodeId, end: u64) -> Result<()> {
        self.version += 1;
        let version = self.version;
        let known = self.node_mut(node)?;
        known.version = version;
        known.modified = true;
        known.attr.size = known.attr.size.max(end);
        Ok(())
    }
}

/// When something was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    pub epoch: u64,
    /// 0: the answer is taken whatever became known since.
    pub version: u64,
}
