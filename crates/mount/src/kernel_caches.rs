//! The kernel's caches, as the file system invalidates them.

use crate::convert::node;
use gupfs_client::{Invalidated, KernelInodes};
use gupfs_fuse::{NodeId, Notifier, NotifyError};
use gupfs_proto::InodeId;
use std::sync::Arc;

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

/// The same as the client uses them.
pub struct InodesOf(pub Arc<dyn KernelCaches>);

impl KernelInodes for InodesOf {
    fn invalidate_attributes(&self, ino: InodeId) -> Invalidated {
        match self.0.inval_attributes(node(ino)) {
            Ok(()) => Invalidated::Done,
            Err(NotifyError::Unknown) => Invalidated::Unknown,
            Err(NotifyError::Gone) => Invalidated::Unmounted,
            Err(error) => Invalidated::Failed(error.to_string()),
        }
    }
}
