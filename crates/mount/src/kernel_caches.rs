//! The kernel's caches, as the file system invalidates them.

use crate::convert::node;
use gupfs_client::{Invalidated, KernelInodes};
use gupfs_fuse::{NodeId, Notifier, NotifyError};
use gupfs_platform::Tasks;
use gupfs_proto::InodeId;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

/// The caches of the kernel, or of a model of it.
pub trait KernelCaches: Send + Sync {
    /// Invalidates the attributes of a node and none of its pages. Waits for nothing.
    ///
    /// # Errors
    /// `Unknown` if the kernel does not have the node, `Gone` if the mount has ended.
    fn inval_attributes(&self, node: NodeId) -> Result<(), NotifyError>;

    /// Drops the pages of a node in this range of bytes, dirty ones after they are written, and invalidates its attributes. Waits for READs
    /// that fill pages of the range.
    ///
    /// # Errors
    /// As `inval_attributes`.
    fn inval_pages(&self, node: NodeId, range: Range<u64>) -> NotifyFuture;
}

pub type NotifyFuture = Pin<Box<dyn Future<Output = Result<(), NotifyError>> + Send>>;

impl KernelCaches for Notifier {
    fn inval_attributes(&self, node: NodeId) -> Result<(), NotifyError> {
        Notifier::inval_attributes(self, node)
    }

    fn inval_pages(&self, node: NodeId, range: Range<u64>) -> NotifyFuture {
        let notifier = self.clone();
        let offset = i64::try_from(range.start).unwrap_or(i64::MAX);
        // Zero: up to the end of the file.
        let length = i64::try_from(range.end - range.start).unwrap_or(0);
        let notify = move || notifier.inval_inode(node, offset, length);
        Box::pin(async move { Tasks::real().blocking(notify).await })
    }
}

/// The same as the client uses them.
pub struct InodesOf(pub Arc<dyn KernelCaches>);

impl KernelInodes for InodesOf {
    fn invalidate_attributes(&self, ino: InodeId) -> Invalidated {
        invalidated(self.0.inval_attributes(node(ino)))
    }

    fn drop_pages(
        &self,
        ino: InodeId,
        range: Range<u64>,
    ) -> Pin<Box<dyn Future<Output = Invalidated> + Send>> {
        let dropped = self.0.inval_pages(node(ino), range);
        Box::pin(async move { invalidated(dropped.await) })
    }
}

fn invalidated(notified: Result<(), NotifyError>) -> Invalidated {
    match notified {
        Ok(()) => Invalidated::Done,
        Err(NotifyError::Unknown) => Invalidated::Unknown,
        Err(NotifyError::Gone) => Invalidated::Unmounted,
        Err(error) => Invalidated::Failed(error.to_string()),
    }
}
