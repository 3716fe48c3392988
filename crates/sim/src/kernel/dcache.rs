//! The cached dentries, and which inodes they keep in memory.
//!
//! A dentry keeps its inode and its directory; an inode without dentries, users and children is evicted, and a FORGET gives its
//! lookups back. A directory has at most one dentry, which moves when a reply finds the directory under another name.

use super::dentry::{CachedDentry, DentryKey};
use super::state::{Node, PageEffect, RequestVersion, State, expiry};
use gupfs_fuse::{EntryReply, Errno, NodeId, Result, op};
use std::time::Duration;
use tokio::time::Instant;

/// The result of a search in the dentry cache.
pub enum Cached {
    Missing,
    /// The lifetime has not ended. None: a negative dentry.
    Valid(Option<NodeId>),
    /// A LOOKUP may confirm it.
    Expired(NodeId),
}

impl State {
    /// Searches a dentry. One of an older epoch is removed, with the file systems mounted on it; so is an expired negative one.
    /// `fresh`: the caller needs a reply of the server.
    pub fn search(&mut self, key: &DentryKey, fresh: bool) -> Cached {
        let (epoch, uses) = (self.epoch, self.uses + 1);
        let Some(dentry) = self.dentries.get_mut(key) else {
            return Cached::Missing;
        };
        let is_valid = !fresh && Instant::now() < dentry.until;
        match dentry.node {
            node if dentry.epoch >= epoch && is_valid => {
                dentry.used = uses;
                self.uses = uses;
                Cached::Valid(node)
            }
            Some(node) if dentry.epoch >= epoch => Cached::Expired(node),
            _ => {
                self.invalidate_dentry(key);
                Cached::Missing
            }
        }
    }

    /// Applies a reply that names a node, and counts a lookup. A new node takes the attributes unchecked. The caller must use the
    /// node: it is not evicted now.
    pub fn add_inode(
        &mut self,
        entry: &EntryReply,
        mut request: RequestVersion,
    ) -> Result<PageEffect> {
        self.nodes.entry(entry.node).or_insert_with(|| {
            request.version = 0;
            Node::new(entry.attr)
        });
        self.count_lookup(entry.node)?;
        Ok(self.apply_attributes(entry.node, entry.attr, entry.attr_ttl, request))
    }

    /// As `add_inode`, with a dentry.
    ///
    /// # Errors
    /// ELOOP if the node is a directory above this name; ESTALE if it has a name in another directory whose lock is taken. The
    /// lookup is counted nevertheless.
    pub fn add_dentry(
        &mut self,
        key: DentryKey,
        entry: &EntryReply,
        request: RequestVersion,
    ) -> Result<PageEffect> {
        let effect = self.add_inode(entry, request)?;
        let moved = self.move_directory(entry.node, &key);
        if moved.is_ok() {
            let ttl = entry.name_ttl;
            self.add(key, Some(entry.node), expiry(ttl), request.epoch);
        }
        self.evict_unused(entry.node);
        moved.map(|()| effect)
    }

    pub fn count_lookup(&mut self, node: NodeId) -> Result<()> {
        self.node_mut(node)?.lookups += 1;
        Ok(())
    }

    /// Applies a reply that there is no such name.
    pub fn add_negative_dentry(&mut self, key: DentryKey, ttl: Duration, epoch: u64) {
        self.add(key, None, expiry(ttl), epoch);
    }

    /// Counts one lookup less: the kernel does not use the reply.
    pub fn refuse_lookup(&mut self, node: NodeId) {
        self.forgets.push(op::Forget { node, lookups: 1 });
    }

    pub(super) fn add(&mut self, key: DentryKey, node: Option<NodeId>, until: Instant, epoch: u64) {
        self.uses += 1;
        // A dentry that only gets a new lifetime stays covered.
        let old = self.dentries.get_mut(&key);
        let old = old.filter(|old| old.node == node);
        let covered = old.is_some_and(|old| std::mem::take(&mut old.covered));
        let dentry = CachedDentry {
            node,
            until,
            epoch,
            covered,
            used: self.uses,
        };
        // The new one is counted first, so that nothing that both use is evicted.
        if let Ok(dir) = self.node_mut(key.0) {
            dir.children += 1;
        }
        if let Some(known) = node.and_then(|node| self.nodes.get_mut(&node)) {
            known.names += 1;
        }
        let old = self.dentries.insert(key.clone(), dentry);
        if let Some(old) = old {
            self.uncount(&key, old);
        }
        if self.dentries.len() > self.dentries_max {
            self.drop_oldest();
        }
    }

    pub(super) fn uncount(&mut self, key: &DentryKey, dentry: CachedDentry) {
        if let Some(node) = dentry.node {
            if let Ok(known) = self.node_mut(node) {
                known.names -= 1;
                known.users -= usize::from(dentry.covered);
            }
            self.evict_unused(node);
        }
        if let Ok(dir) = self.node_mut(key.0) {
            dir.children -= 1;
        }
        self.evict_unused(key.0);
    }

    pub(super) fn remove(&mut self, key: &DentryKey) -> Option<CachedDentry> {
        let dentry = self.dentries.remove(key)?;
        self.uncount(key, dentry);
        Some(dentry)
    }

    /// Whether `node` is `dir` or a directory above it.
    pub fn is_ancestor(&self, node: NodeId, dir: NodeId) -> bool {
        let mut at = Some(dir);
        while let Some(dir) = at {
            if dir == node {
                return true;
            }
            at = self.parent(dir);
        }
        false
    }

    /// The directory in which a directory has its last known name.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        let place = self.nodes.get(&node)?.place.as_ref();
        place.map(|(parent, _)| *parent)
    }

    /// Whether the last known name of a directory is still cached.
    pub fn has_path(&self, node: NodeId) -> bool {
        let place = self.nodes.get(&node).and_then(|known| known.place.as_ref());
        let dentry = place.and_then(|place| self.dentries.get(place));
        dentry.is_some_and(|dentry| dentry.node == Some(node))
    }

    /// Removes a dentry, the unused dentries below it, and the file systems that are mounted on it or below.
    pub fn invalidate_dentry(&mut self, key: &DentryKey) -> Option<CachedDentry> {
        let removed = self.remove(key)?;
        if let Some(node) = removed.node {
            self.drop_below(node, true);
        }
        Some(removed)
    }

    /// Removes the unused dentries below a directory.
    pub fn drop_below(&mut self, dir: NodeId, unmount: bool) {
        for (key, node) in self.names_in(dir) {
            if let Some(node) = node {
                self.drop_below(node, unmount);
            }
            if unmount {
                self.uncover(&key);
            }
            if node.is_none_or(|node| self.is_unused(node)) {
                self.remove(&key);
            }
        }
    }

    pub fn names_in(&self, dir: NodeId) -> Vec<(DentryKey, Option<NodeId>)> {
        let names = self.dentries.range((dir, Vec::new())..);
        let names = names.take_while(|((parent, _), _)| *parent == dir);
        names
            .map(|(key, found)| (key.clone(), found.node))
            .collect()
    }

    pub(super) fn is_unused(&self, node: NodeId) -> bool {
        let known = self.nodes.get(&node);
        known.is_none_or(|known| known.users == 0 && known.children == 0)
    }

    /// Removes every dentry that nothing uses, as Linux does under memory pressure.
    pub fn drop_unused(&mut self) {
        self.drop_below(NodeId::ROOT, false);
        // Directories whose names are no longer cached may still have dentries.
        for node in self.node_ids() {
            self.drop_below(node, false);
        }
    }

    fn drop_oldest(&mut self) {
        // The newest one is about to be used.
        let unused = |dentry: &CachedDentry| {
            dentry.used != self.uses && dentry.node.is_none_or(|node| self.is_unused(node))
        };
        let unused = self.dentries.iter().filter(|(_, dentry)| unused(dentry));
        let oldest = unused.min_by_key(|(_, dentry)| dentry.used);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.remove(&key);
        }
    }

    /// Evicts an inode that nothing uses.
    pub fn evict_unused(&mut self, node: NodeId) {
        let Some(known) = self.nodes.get(&node) else {
            return;
        };
        let in_use = known.users + known.names + known.children > 0;
        if node == NodeId::ROOT || in_use {
            return;
        }
        let Some(evicted) = self.nodes.remove(&node) else {
            return;
        };
        self.evictions += u64::from(evicted.attr.nlink > 0);
        if evicted.lookups > 0 {
            let lookups = evicted.lookups;
            self.forgets.push(op::Forget { node, lookups });
        }
        if let Some((parent, _)) = evicted.place {
            self.uncount_place(parent);
        }
    }

    /// A reply confirms a dentry: gives it a new lifetime, and a new epoch if the reply is one to a listing.
    pub fn renew_dentry(
        &mut self,
        key: &DentryKey,
        node: NodeId,
        ttl: Duration,
        epoch: Option<u64>,
    ) {
        let dentry = self.dentries.get_mut(key);
        if let Some(dentry) = dentry.filter(|dentry| dentry.node == Some(node)) {
            dentry.until = expiry(ttl);
            dentry.epoch = epoch.unwrap_or(dentry.epoch);
        }
    }

    /// A program uses a listed name: with READDIRPLUS_AUTO the next listing asks for attributes again.
    pub fn advise_listing_attributes(&mut self, dir: NodeId, node: NodeId) {
        let Some(known) = self.nodes.get_mut(&node) else {
            return;
        };
        if std::mem::take(&mut known.listed)
            && let Ok(dir) = self.node_mut(dir)
        {
            dir.listing_advised = true;
        }
    }

    /// Ends the lifetime of a dentry.
    pub fn expire_dentry(&mut self, key: &DentryKey) {
        if let Some(dentry) = self.dentries.get_mut(key) {
            dentry.until = Instant::now();
        }
    }

    /// Mounts a file system on a dentry, which keeps the inode.
    pub fn cover(&mut self, key: &DentryKey) -> Result<()> {
        let dentry = self.dentries.get_mut(key).ok_or(Errno::ENOENT)?;
        let node = dentry.node.ok_or(Errno::ENOENT)?;
        let was_covered = std::mem::replace(&mut dentry.covered, true);
        self.node_mut(node)?.users += usize::from(!was_covered);
        Ok(())
    }

    pub fn is_covered(&self, key: &DentryKey) -> bool {
        self.dentries.get(key).is_some_and(|dentry| dentry.covered)
    }

    fn uncover(&mut self, key: &DentryKey) {
        let Some(dentry) = self.dentries.get_mut(key) else {
            return;
        };
        if !std::mem::replace(&mut dentry.covered, false) {
            return;
        }
        if let Some(node) = dentry.node
            && let Ok(known) = self.node_mut(node)
        {
            known.users -= 1;
        }
    }
}
