//! Notifications of the server.

use super::dentry::DentryKey;
use super::inode_ref::InodeRef;
use super::{Kernel, Quirk};
use gupfs_fuse::{FileSystem, NodeId, NotifyError, op};
use std::ops::Range;

type Notified = Result<(), NotifyError>;

impl<F: FileSystem> Kernel<F> {
    /// INVAL_INODE without pages: invalidates attributes and the ACL. Waits for nothing.
    pub fn inval_attributes(&self, node: NodeId) -> Notified {
        if self.state().node(node).is_err() {
            if self.has_quirk(Quirk::LookupHasVersion) {
                // A lookup in flight must see that an invalidation has overtaken it.
                let invalidated = self.state().invalidate_attributes(NodeId::ROOT);
                debug_assert_eq!(invalidated, Ok(()));
            }
            return match self.has_quirk(Quirk::UnknownInodeAccepted) {
                true => Ok(()),
                false => Err(NotifyError::Unknown),
            };
        }
        let mut state = self.state();
        if self.has_quirk(Quirk::InodeInvalidationDropsNames) {
            state.drop_below(node, false);
        }
        if !self.has_quirk(Quirk::InodeInvalidationIgnored) {
            let invalidated = state.invalidate_attributes(node);
            invalidated.map_err(|_| NotifyError::Unknown)?;
        }
        if !self.has_quirk(Quirk::AclsSurviveInvalidation)
            && let Ok(known) = state.node_mut(node)
        {
            known.drop_acl();
        }
        Ok(())
    }

    /// INVAL_INODE: as `inval_attributes`, and drops the pages from `offset` on unless it is negative. Waits for reads that fill
    /// pages.
    pub async fn inval_inode(&self, node: NodeId, offset: i64) -> Notified {
        if let Ok(from) = u64::try_from(offset) {
            return self.inval_pages(node, from..u64::MAX).await;
        }
        self.inval_attributes(node)?;
        let inode = self.inode(node);
        if self.has_quirk(Quirk::AttributeInvalidationWaitsForPages) {
            self.drop_pages(node, 0, u64::MAX).await;
        }
        drop(inode);
        self.send_forgets().await;
        Ok(())
    }

    /// INVAL_INODE of a range of bytes: as `inval_attributes`, and drops the pages. Waits for reads that fill them.
    pub async fn inval_pages(&self, node: NodeId, range: Range<u64>) -> Notified {
        self.inval_attributes(node)?;
        // The inode stays in memory until its pages are dropped.
        let inode = self.inode(node);
        if !self.has_quirk(Quirk::PagesSurviveInvalidation) {
            self.drop_pages(node, range.start, range.end).await;
        }
        drop(inode);
        self.send_forgets().await;
        Ok(())
    }

    /// INVAL_ENTRY: removes a dentry. Waits for the directory's lock.
    pub async fn inval_entry(&self, parent: NodeId, name: &[u8]) -> Notified {
        let dir = self.inode(parent).map_err(|_| NotifyError::Unknown)?;
        let lock = dir.lock();
        let alone = match self.has_quirk(Quirk::EntryInvalidationTakesNoLock) {
            true => None,
            false => Some(lock.write().await),
        };
        let removed = self.remove_name(&(parent, name.to_vec()));
        drop(alone);
        drop(dir);
        self.send_forgets().await;
        removed
    }

    /// The caller holds the directory's lock.
    fn remove_name(&self, key: &DentryKey) -> Notified {
        if self.has_quirk(Quirk::DentriesSurviveInvalidation) {
            return Ok(());
        }
        let mut state = self.state();
        let Some(dentry) = state.dentries.get(key).copied() else {
            return match self.has_quirk(Quirk::UnknownNameAccepted) {
                true => Ok(()),
                false => Err(NotifyError::Unknown),
            };
        };
        state.note_directory_change(key.0);
        state.invalidate_dentry(key);
        let Some(node) = dentry.node else {
            return Ok(());
        };
        let Ok(known) = state.node_mut(node) else {
            return Ok(());
        };
        if self.has_quirk(Quirk::WorkingDirectoriesDie) {
            known.dead = true;
        }
        if self.has_quirk(Quirk::OpenFilesForgotten) {
            let lookups = std::mem::take(&mut known.lookups);
            state.forgets.push(op::Forget { node, lookups });
        }
        Ok(())
    }

    /// FUSE_NOTIFY_DELETE: removes the name of `child`, which then has no links; a directory finds no names any more. Waits for the
    /// directory's lock. The name is removed even if it is another inode's.
    pub async fn delete(&self, parent: NodeId, child: NodeId, name: &[u8]) -> Notified {
        if self.has_quirk(Quirk::NoDeletionNotice) {
            return Err(NotifyError::Unsupported);
        }
        let dir = self.inode(parent).map_err(|_| NotifyError::Unknown)?;
        let lock = dir.lock();
        let alone = lock.write().await;
        let deleted = self.delete_name(&(parent, name.to_vec()), child).await;
        drop(alone);
        drop(dir);
        self.send_forgets().await;
        deleted
    }

    async fn delete_name(&self, key: &DentryKey, child: NodeId) -> Notified {
        if self.has_quirk(Quirk::DeletionRefusesCovered) && self.state().is_covered(key) {
            return Err(NotifyError::Busy);
        }
        let found = self.state().dentries.get(key).copied();
        let found = found.ok_or(NotifyError::Unknown)?;
        let inode = found.node.map(|node| self.inode(node));
        {
            let mut state = self.state();
            state.note_directory_change(key.0);
            state.invalidate_dentry(key);
        }
        let Some(inode) = inode else { return Ok(()) };
        let inode = inode.map_err(|_| NotifyError::Unknown)?;
        let lock = inode.lock();
        let _alone = lock.write().await;
        if inode.node() != child && !self.has_quirk(Quirk::DeletionIgnoresInode) {
            return Err(NotifyError::Unknown);
        }
        self.mark_deleted(&inode)
    }

    fn mark_deleted(&self, inode: &InodeRef) -> Notified {
        let mut state = self.state();
        let node = inode.node();
        state.drop_below(node, false);
        let names = state.names_in(node);
        if names.iter().any(|(_, named)| named.is_some()) {
            return Err(NotifyError::NotEmpty);
        }
        let Ok(known) = state.node_mut(node) else {
            return Err(NotifyError::Unknown);
        };
        if known.is_directory() && !self.has_quirk(Quirk::DeletionSparesDirectories) {
            known.dead = true;
        }
        if !self.has_quirk(Quirk::DeletionKeepsLinks) {
            known.attr.nlink = 0;
        }
        Ok(())
    }

    /// INC_EPOCH: expires all dentries at once.
    pub async fn inc_epoch(&self) -> Notified {
        if self.has_quirk(Quirk::NoIncEpoch) {
            return Err(NotifyError::Unsupported);
        }
        if self.has_quirk(Quirk::EpochWaitsForDirectory) {
            let lock = self.state().lock_of(NodeId::ROOT);
            if let Ok(lock) = lock {
                drop(lock.write().await);
            }
        }
        self.state().epoch += 1;
        if self.has_quirk(Quirk::EpochDropsPaths) {
            let mut state = self.state();
            for (key, _) in state.names_in(NodeId::ROOT) {
                state.invalidate_dentry(&key);
            }
        }
        if self.has_quirk(Quirk::EpochDropsPages) {
            let nodes = self.state().node_ids();
            for node in nodes {
                self.drop_pages(node, 0, u64::MAX).await;
            }
        }
        self.send_forgets().await;
        Ok(())
    }
}
