//! Dentries that move: rename(2), and directories that a reply finds under another name.

use super::dentry::DentryKey;
use super::state::{Node, State};
use gupfs_fuse::{Errno, NodeId, Result};
use tokio::time::Instant;

impl State {
    /// A directory that is found under another name has moved there.
    pub(super) fn move_directory(&mut self, node: NodeId, key: &DentryKey) -> Result<()> {
        let known = self.node(node)?;
        if !known.is_directory() || known.place.as_ref() == Some(key) {
            return Ok(());
        }
        if self.is_ancestor(node, key.0) {
            return Err(Errno::ELOOP);
        }
        let old = known.place.clone();
        if let Some((dir, _)) = old.as_ref().filter(|(dir, _)| *dir != key.0) {
            let lock = self.lock_of(*dir)?;
            let _unlocked = lock.try_read().map_err(|_| Errno::ESTALE)?;
        }
        self.set_place(node, key.clone());
        if let Some(old) = old {
            self.remove_dentry_of(&old, node);
        }
        Ok(())
    }

    /// Sets the last known name of a directory.
    pub fn set_place(&mut self, node: NodeId, key: DentryKey) {
        let dir = key.0;
        if let Ok(parent) = self.node_mut(dir) {
            parent.children += 1;
        }
        let old = self.nodes.get_mut(&node);
        let old = old.and_then(|known| known.place.replace(key));
        if let Some((parent, _)) = old {
            self.uncount_place(parent);
        }
    }

    pub(super) fn uncount_place(&mut self, parent: NodeId) {
        if let Ok(known) = self.node_mut(parent) {
            known.children -= 1;
        }
        self.evict_unused(parent);
    }

    fn remove_dentry_of(&mut self, key: &DentryKey, node: NodeId) {
        let dentry = self.dentries.get(key);
        if dentry.is_some_and(|dentry| dentry.node == Some(node)) {
            self.remove(key);
        }
    }

    /// rename(2) of a cached name: the dentry keeps its lifetime; the new name's dentry is dropped.
    pub fn move_dentry(&mut self, from: &DentryKey, to: &DentryKey) {
        let Some(dentry) = self.dentries.get(from).copied() else {
            return;
        };
        self.add(to.clone(), dentry.node, dentry.until, dentry.epoch);
        self.place_at(dentry.node, to);
        self.remove(from);
    }

    /// rename(2) with RENAME_EXCHANGE of two cached names.
    pub fn exchange_dentries(&mut self, one: &DentryKey, other: &DentryKey) {
        let found = (self.dentries.get(one), self.dentries.get(other));
        let (Some(first), Some(second)) = (found.0.copied(), found.1.copied()) else {
            return;
        };
        // Neither inode is evicted meanwhile: the rename uses both.
        self.add(other.clone(), first.node, first.until, first.epoch);
        self.add(one.clone(), second.node, second.until, second.epoch);
        self.place_at(first.node, other);
        self.place_at(second.node, one);
    }

    fn place_at(&mut self, node: Option<NodeId>, key: &DentryKey) {
        let Some(node) = node else { return };
        if self.node(node).is_ok_and(Node::is_directory) {
            self.set_place(node, key.clone());
        }
    }

    /// After unlink(2) or rmdir(2): the dentry becomes negative and ends at once, unless something uses the inode.
    pub fn delete_dentry(&mut self, key: &DentryKey) {
        let Some(dentry) = self.dentries.get(key).copied() else {
            return;
        };
        let in_use = dentry.node.is_some_and(|node| !self.is_unused(node));
        match in_use {
            true => drop(self.remove(key)),
            false => self.add(key.clone(), None, Instant::now(), dentry.epoch),
        }
    }
}
