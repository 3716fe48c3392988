//! References to inodes.

use super::state::{Node, State};
use gupfs_fuse::{NodeId, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::RwLock;

/// Keeps an inode in memory until it is dropped. Never drop it while the state is locked.
pub struct InodeRef {
    state: Arc<Mutex<State>>,
    node: NodeId,
}

impl InodeRef {
    pub fn new(state: &Arc<Mutex<State>>, node: NodeId) -> Result<InodeRef> {
        state.lock().node_mut(node)?.users += 1;
        Ok(InodeRef {
            state: state.clone(),
            node,
        })
    }

    pub fn node(&self) -> NodeId {
        self.node
    }

    fn read<T>(&self, get: impl FnOnce(&Node) -> T) -> T {
        let state = self.state.lock();
        let node = state.node(self.node);
        get(node.expect("the reference keeps the inode in memory"))
    }

    /// The inode's lock.
    pub fn lock(&self) -> Arc<RwLock<()>> {
        self.read(|node| node.lock.clone())
    }

    pub fn is_directory(&self) -> bool {
        self.read(Node::is_directory)
    }

    pub fn is_symlink(&self) -> bool {
        self.read(Node::is_symlink)
    }

    /// The size that is cached.
    pub fn size(&self) -> u64 {
        self.read(|node| node.attr.size)
    }
}

impl Clone for InodeRef {
    fn clone(&self) -> InodeRef {
        InodeRef::new(&self.state, self.node).expect("the reference keeps the inode in memory")
    }
}

impl Drop for InodeRef {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if let Ok(node) = state.node_mut(self.node) {
            node.users -= 1;
        }
        state.evict_unused(self.node);
    }
}
