//! Notifications of the server.

use super::{Kernel, Quirk};
use gupfs_fuse::{FileSystem, NodeId, NotifyError};

impl<F: FileSystem> Kernel<F> {
    /// INVAL_INODE: invalidates attributes, and pages from `offset` on unless it is negative. Waits for reads that fill pages.
    pub async fn inval_inode(&self, node: NodeId, offset: i64) -> Result<(), NotifyError> {
        let known = self.state().node(node).is_ok();
        if !known {
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
        if self.has_quirk(Quirk::InodeInvalidationDropsNames) {
            self.state().dentries.retain(|(dir, _), _| *dir != node);
        }
        if !self.has_quirk(Quirk::InodeInvalidationIgnored) {
            let invalidated = self.state().invalidate_attributes(node);
            invalidated.map_err(|_| NotifyError::Unknown)?;
        }
        if offset >= 0 {
            if !self.has_quirk(Quirk::PagesSurviveInvalidation) {
                self.drop_pages(node, offset as u64, u64::MAX).await;
            }
        } else if self.has_quirk(Quirk::AttributeInvalidationWaitsForPages) {
            self.drop_pages(node, 0, u64::MAX).await;
        }
        Ok(())
    }

    /// INVAL_ENTRY: removes a dentry. Waits for the directory's lock.
    pub async fn inval_entry(&self, parent: NodeId, name: &[u8]) -> Result<(), NotifyError> {
        let lock = self.state().lock_of(parent);
        let lock = lock.map_err(|_| NotifyError::Unknown)?;
        let _alone = match self.has_quirk(Quirk::EntryInvalidationTakesNoLock) {
            true => None,
            false => Some(lock.write().await),
        };
        if self.has_quirk(Quirk::DentriesSurviveInvalidation) {
            return Ok(());
        }
        let key = (parent, name.to_vec());
        let mut state = self.state();
        state.covered.remove(&key);
        match state.dentries.remove(&key) {
            Some(_) => Ok(()),
            None if self.has_quirk(Quirk::UnknownNameAccepted) => Ok(()),
            None => Err(NotifyError::Unknown),
        }
    }

    /// INC_EPOCH: expires all dentries at once.
    pub async fn inc_epoch(&self) -> Result<(), NotifyError> {
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
        if self.has_quirk(Quirk::EpochDropsPages) {
            let nodes = self.state().node_ids();
            for node in nodes {
                self.drop_pages(node, 0, u64::MAX).await;
            }
        }
        Ok(())
    }
}
