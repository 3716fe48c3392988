//! Notifications that the server sends.

use super::{Kernel, Quirk};
use gupfs_fuse::{FileSystem, NodeId, NotifyError};

impl<F: FileSystem> Kernel<F> {
    /// Attributes, and pages from `offset` on unless it is negative. Waits for pages that are being read.
    pub async fn inval_inode(&self, node: NodeId, offset: i64) -> Result<(), NotifyError> {
        let known = self.state().node(node).is_ok();
        if !known {
            if self.has(Quirk::LookupHasVersion) {
                // So that who asks now sees that something has passed it.
                let noted = self.state().doubt(NodeId::ROOT);
                debug_assert_eq!(noted, Ok(()));
            }
            return Err(NotifyError::Unknown);
        }
        if !self.has(Quirk::InvalidationIgnored) {
            let doubted = self.state().doubt(node);
            doubted.map_err(|_| NotifyError::Unknown)?;
        }
        if offset >= 0 {
            self.drop_pages(node, offset as u64, u64::MAX).await;
        } else if self.has(Quirk::AttributesWaitForPages) {
            self.drop_pages(node, 0, u64::MAX).await;
        }
        Ok(())
    }

    /// A name. Waits for the directory's lock.
    pub async fn inval_entry(&self, parent: NodeId, name: &[u8]) -> Result<(), NotifyError> {
        let lock = self.state().lock_of(parent);
        let lock = lock.map_err(|_| NotifyError::Unknown)?;
        let _alone = match self.has(Quirk::NamesWithoutLock) {
            true => None,
            false => Some(lock.write().await),
        };
        if self.has(Quirk::NamesSurvive) {
            return Ok(());
        }
        let place = (parent, name.to_vec());
        let mut state = self.state();
        state.covered.remove(&place);
        match state.names.remove(&place) {
            Some(_) => Ok(()),
            None => Err(NotifyError::Unknown),
        }
    }

    /// All names become old, at once.
    pub async fn inc_epoch(&self) {
        if self.has(Quirk::EpochWaits) {
            let lock = self.state().lock_of(NodeId::ROOT);
            if let Ok(lock) = lock {
                drop(lock.write().await);
            }
        }
        self.state().epoch += 1;
    }
}
