//! Path walks: cached dentries, their revalidation, LOOKUP, symbolic links.
//!
//! A dentry whose lifetime has ended is revalidated by a LOOKUP without any lock. A name without a dentry is looked up under the
//! directory's lock, which lookups and listings share.

use super::dcache::Cached;
use super::dentry::DentryKey;
use super::inode_ref::InodeRef;
use super::state::{Needed, RequestVersion};
use super::{Kernel, Quirk};
use gupfs_fuse::op::{self, EntryName};
use gupfs_fuse::{EntryReply, Errno, FileSystem, InitFlags, NodeId, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// Symbolic links that one path may follow.
pub const SYMLINKS_MAX: usize = 40;

/// How a path is walked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalkMode {
    /// Follow a symbolic link in the last component.
    pub follow: bool,
    /// Revalidate every dentry.
    revalidate: bool,
}

impl WalkMode {
    pub const FOLLOW: WalkMode = WalkMode {
        follow: true,
        revalidate: false,
    };
    pub const NO_FOLLOW: WalkMode = WalkMode {
        follow: false,
        revalidate: false,
    };
}

fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/');
    parts.filter(|part| !part.is_empty()).map(<[u8]>::to_vec)
}

impl<F: FileSystem> Kernel<F> {
    /// The inode of a path. An absolute path, also of a symbolic link, begins at the root of the mount. After ESTALE the walk is
    /// repeated, and revalidates every dentry.
    pub(super) async fn walk(
        &self,
        start: &InodeRef,
        path: &[u8],
        mode: WalkMode,
    ) -> Result<InodeRef> {
        match self.walk_once(start, path, mode).await {
            Err(Errno::ESTALE) => {
                let again = WalkMode {
                    revalidate: true,
                    ..mode
                };
                self.walk_once(start, path, again).await
            }
            found => found,
        }
    }

    async fn walk_once(&self, start: &InodeRef, path: &[u8], mode: WalkMode) -> Result<InodeRef> {
        let mut at = self.start_of(start, path)?;
        let mut rest: VecDeque<Vec<u8>> = components(path).collect();
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            self.check_search(&at).await?;
            if name == b"." {
                continue;
            }
            if name == b".." {
                at = self.parent_of(&at)?;
                continue;
            }
            let found = self.resolve(&at, &name, mode.revalidate).await?;
            if !found.is_symlink() || rest.is_empty() && !mode.follow {
                at = found;
                continue;
            }
            links += 1;
            if links > SYMLINKS_MAX {
                return Err(Errno::ELOOP);
            }
            let target = self.read_link(&found).await?;
            at = self.start_of(&at, &target)?;
            for name in components(&target).rev() {
                rest.push_front(name);
            }
        }
        Ok(at)
    }

    /// The directory of a path's last component, and its name. The directory can be searched.
    ///
    /// # Errors
    /// EINVAL if the path has no last component that is a name.
    pub(super) async fn walk_parent(
        &self,
        start: &InodeRef,
        path: &[u8],
    ) -> Result<(InodeRef, Vec<u8>)> {
        let name = components(path).next_back().ok_or(Errno::EINVAL)?;
        if name == b"." || name == b".." {
            return Err(Errno::EINVAL);
        }
        let end = path.iter().rposition(|byte| *byte != b'/').unwrap_or(0) + 1;
        let dir = &path[..end - name.len()];
        let dir = self.walk(start, dir, WalkMode::FOLLOW).await?;
        self.check_search(&dir).await?;
        Ok((dir, name))
    }

    fn start_of(&self, start: &InodeRef, path: &[u8]) -> Result<InodeRef> {
        match path.first() {
            Some(b'/') => self.inode(NodeId::ROOT),
            _ => Ok(start.clone()),
        }
    }

    fn parent_of(&self, dir: &InodeRef) -> Result<InodeRef> {
        let parent = self.state().parent(dir.node());
        self.inode(parent.unwrap_or(NodeId::ROOT))
    }

    /// Permission to search a directory.
    pub(super) async fn check_search(&self, dir: &InodeRef) -> Result<()> {
        if !dir.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        self.check_permission(dir).await
    }

    /// A permission check needs valid attributes, if the kernel is to check permissions: POSIX_ACL implies it.
    pub(super) async fn check_permission(&self, inode: &InodeRef) -> Result<()> {
        if !self.flags.contains(InitFlags::POSIX_ACL) {
            return Ok(());
        }
        self.attributes(inode, Needed::Basic, None).await.map(drop)
    }

    async fn read_link(&self, link: &InodeRef) -> Result<Vec<u8>> {
        let target = self.fs.readlink(self.call(link.node()), ());
        let target = self.wait_reply(target).await?;
        if let Ok(node) = self.state().node_mut(link.node()) {
            node.invalidate_times();
        }
        Ok(target)
    }

    /// readlink(2).
    pub(super) async fn link_target(&self, start: &InodeRef, path: &[u8]) -> Result<Vec<u8>> {
        let link = self.walk(start, path, WalkMode::NO_FOLLOW).await?;
        if !link.is_symlink() {
            return Err(Errno::EINVAL);
        }
        self.read_link(&link).await
    }

    /// The inode of a name in a directory. `fresh`: a LOOKUP confirms it.
    pub(super) async fn resolve(
        &self,
        dir: &InodeRef,
        name: &[u8],
        fresh: bool,
    ) -> Result<InodeRef> {
        if let Some(found) = self.cached(dir, name, fresh).await {
            return found;
        }
        let lock = dir.lock();
        let _shared = lock.read().await;
        self.look_up(dir, name, false).await
    }

    /// What the dentry cache says about a name: nothing, or the inode, or ENOENT. Takes no lock.
    pub(super) async fn cached(
        &self,
        dir: &InodeRef,
        name: &[u8],
        fresh: bool,
    ) -> Option<Result<InodeRef>> {
        let key = (dir.node(), name.to_vec());
        let found = {
            let mut state = self.state();
            let stays = self.has_quirk(Quirk::CoveringMountStays) && state.is_covered(&key);
            match stays {
                true => Cached::Valid(state.dentries[&key].node),
                false => state.search(&key, fresh),
            }
        };
        match found {
            Cached::Missing => None,
            Cached::Valid(None) => Some(Err(Errno::ENOENT)),
            Cached::Valid(Some(node)) => {
                self.state().advise_listing_attributes(dir.node(), node);
                Some(self.inode(node))
            }
            Cached::Expired(node) => self.revalidate(&key, node).await,
        }
    }

    /// A LOOKUP that confirms a dentry, or removes it.
    async fn revalidate(&self, key: &DentryKey, node: NodeId) -> Option<Result<InodeRef>> {
        let inode = match self.inode(node) {
            Ok(inode) => inode,
            Err(errno) => return Some(Err(errno)),
        };
        let request_version = self.request_version();
        match self.send_lookup(key).await {
            Ok(entry) if entry.node == node => {
                self.confirm(key, &entry, request_version, None).await;
                return Some(Ok(inode));
            }
            Err(errno @ (Errno::EINTR | Errno::ENOMEM)) => return Some(Err(errno)),
            Ok(entry) if entry.node != NodeId::NONE => self.state().refuse_lookup(entry.node),
            Ok(_) | Err(_) => {}
        }
        let mut state = self.state();
        if state.dentries.get(key).and_then(|dentry| dentry.node) == Some(node) {
            state.invalidate_dentry(key);
        }
        None
    }

    async fn send_lookup(&self, (dir, name): &DentryKey) -> Result<EntryReply> {
        let request = op::Lookup {
            name: EntryName::new(name.as_slice()),
        };
        let reply = self.fs.lookup(self.call(*dir), request);
        self.wait_reply(reply).await
    }

    /// Applies a reply that names the inode which the dentry has. `epoch`: the dentry's new one.
    pub(super) async fn confirm(
        &self,
        key: &DentryKey,
        entry: &EntryReply,
        request_version: RequestVersion,
        epoch: Option<u64>,
    ) {
        let effect = {
            let mut state = self.state();
            if let Ok(known) = state.node_mut(entry.node) {
                known.lookups += 1;
                if !self.has_quirk(Quirk::AclsSurviveAttributes) {
                    known.drop_acl();
                }
            }
            let ttl = match self.has_quirk(Quirk::NamesNeverExpire) {
                true => Duration::MAX,
                false => entry.name_ttl,
            };
            state.renew_dentry(key, entry.node, ttl, epoch);
            let request_version = RequestVersion {
                evictions: None,
                ..request_version
            };
            state.apply_attributes(entry.node, entry.attr, entry.attr_ttl, request_version)
        };
        self.apply_page_effect(entry.node, effect).await;
    }

    /// The inode of a name that has no valid dentry. The caller holds the directory's lock. Programs that look up one name share
    /// a LOOKUP.
    pub(super) async fn look_up(
        &self,
        dir: &InodeRef,
        name: &[u8],
        fresh: bool,
    ) -> Result<InodeRef> {
        let key = (dir.node(), name.to_vec());
        let _turn = self.lookup_turn(&key).await;
        match self.cached(dir, name, fresh).await {
            Some(found) => found,
            None => self.look_up_alone(&key).await,
        }
    }

    /// Only one reply at a time adds a name that has no dentry.
    pub(super) async fn lookup_turn(&self, key: &DentryKey) -> OwnedMutexGuard<()> {
        let turn = {
            let mut state = self.state();
            state.lookups.retain(|_, turn| Arc::strong_count(turn) > 1);
            state.lookups.entry(key.clone()).or_default().clone()
        };
        turn.lock_owned().await
    }

    async fn look_up_alone(&self, key: &DentryKey) -> Result<InodeRef> {
        if self.state().node(key.0)?.dead {
            return Err(Errno::ENOENT);
        }
        let request_version = self.request_version();
        let entry = match self.send_lookup(key).await {
            Err(Errno::ENOENT) => EntryReply::absent(Duration::ZERO),
            other => other?,
        };
        if entry.node == NodeId::NONE {
            self.apply_absence(key, entry.name_ttl, request_version);
            return Err(Errno::ENOENT);
        }
        let was_overtaken = self.request_version() != request_version;
        let inode = self.apply_entry(key, &entry, request_version).await?;
        self.state().node_mut(key.0)?.listing_advised = true;
        if was_overtaken && self.has_quirk(Quirk::LookupHasVersion) {
            self.state().invalidate_attributes(entry.node)?;
        }
        Ok(inode)
    }

    fn apply_absence(&self, key: &DentryKey, mut ttl: Duration, request_version: RequestVersion) {
        if self.has_quirk(Quirk::NegativeDentriesNotCached) {
            return;
        }
        if self.has_quirk(Quirk::NamesNeverExpire) {
            ttl = Duration::MAX;
        }
        let mut state = self.state();
        let epoch = match self.has_quirk(Quirk::EpochSparesRepliesInFlight) {
            true => state.epoch,
            false => request_version.epoch,
        };
        state.add_negative_dentry(key.clone(), ttl, epoch);
    }

    /// Applies a reply that names an inode.
    pub(super) async fn apply_entry(
        &self,
        key: &DentryKey,
        entry: &EntryReply,
        mut request_version: RequestVersion,
    ) -> Result<InodeRef> {
        let mut entry = *entry;
        if matches!(entry.node, NodeId::NONE | NodeId::ROOT) {
            return Err(Errno::EIO);
        }
        if self.has_quirk(Quirk::EpochSparesRepliesInFlight) {
            request_version.epoch = self.state().epoch;
        }
        if self.has_quirk(Quirk::NamesNeverExpire) {
            entry.name_ttl = Duration::MAX;
        }
        let effect = self
            .state()
            .add_dentry(key.clone(), &entry, request_version)?;
        let inode = self.inode(entry.node)?;
        self.apply_page_effect(entry.node, effect).await;
        Ok(inode)
    }
}
