//! The kernel's caches, as the file system invalidates them.

use gupfs_fuse::{NodeId, Notifier, NotifyError};

/// The caches of the kernel, or of a model of it.
pub trait KernelCaches: Send + Sync {
    /// Invalidates the attributes of a node and none of its pages. Waits for nothing.
    ///
    /// # Errors
    /// `Unknown` if the kernel does not have the node, `Gone` if the mount has ended.
    fn inval_attributes(&self, node: NodeId) -> Result<(), NotifyError>;
}

impl KernelCaches for Notifier {
    fn inval_attributes(&self, node: NodeId) -> Result<(), NotifyError> {
        Notifier::inval_attributes(self, node)
    }
}
