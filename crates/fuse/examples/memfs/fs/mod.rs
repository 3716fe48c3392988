//! A complete file system in memory, behind one lock.

mod files;
mod locks;
mod names;
mod requests;
mod state;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gupfs_fuse::{
    AttrReply, Call, EntryReply, FileHandle, NodeId, OpenReply, OpenReplyFlags, Result, op,
};
use state::{FileTree, Node};

/// How long the kernel may cache names and attributes: only this mount changes them.
const TTL: Duration = Duration::from_secs(3600);

pub struct MemFs {
    state: Mutex<FileTree>,
    /// Notified when a lock is released.
    unlocked: tokio::sync::Notify,
    /// Flags of replies to OPEN.
    opened: OpenReplyFlags,
}

impl MemFs {
    pub fn new(opened: OpenReplyFlags) -> MemFs {
        MemFs {
            state: Mutex::new(FileTree::new()),
            unlocked: tokio::sync::Notify::new(),
            opened,
        }
    }

    /// Number of inodes, including the root.
    pub fn inodes(&self) -> usize {
        self.state().nodes.len()
    }

    /// Creates empty files in the root without the kernel's knowledge.
    pub fn fill(&self, names: &[String]) {
        let mut state = self.state();
        for name in names {
            state.fill(name);
        }
    }

    fn state(&self) -> MutexGuard<'_, FileTree> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_node(&self, node: NodeId, flags: OpenReplyFlags) -> Result<OpenReply> {
        self.state().node_mut(node)?.opens += 1;
        Ok(OpenReply {
            fh: FileHandle(node.0),
            flags,
        })
    }

    fn lock(&self, call: &Call, op: &op::Lock) -> Result<()> {
        let released = self.state().node_mut(call.node)?.locks.set(op)?;
        if released {
            self.unlocked.notify_waiters();
        }
        Ok(())
    }

    fn close_node(&self, node: NodeId) {
        let mut state = self.state();
        if let Some(node) = state.nodes.get_mut(&node.0) {
            node.opens -= 1;
        }
        state.drop_if_unused(node);
    }
}

fn attributes(node: &Node) -> AttrReply {
    AttrReply {
        attr: node.attr(),
        ttl: TTL,
    }
}

fn entry(node: &Node) -> EntryReply {
    EntryReply {
        node: NodeId(node.attr.ino),
        generation: 0,
        name_ttl: TTL,
        attr: node.attr(),
        attr_ttl: TTL,
    }
}

/// Counts a lookup and returns the entry for a reply that gives the kernel a node.
fn count_lookup(node: &mut Node) -> EntryReply {
    node.lookups += 1;
    entry(node)
}
