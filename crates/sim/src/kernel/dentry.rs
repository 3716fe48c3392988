//! A dentry: what is known about a name in a directory.

use gupfs_fuse::NodeId;
use tokio::time::Instant;

/// A directory, and a name in it.
pub type DentryKey = (NodeId, Vec<u8>);

/// A cached dentry with the end of its lifetime.
#[derive(Clone, Copy)]
pub struct CachedDentry {
    /// None: a negative dentry.
    pub node: Option<NodeId>,
    pub until: Instant,
    pub epoch: u64,
    /// A file system is mounted on it.
    pub covered: bool,
    /// When it was used last, in uses of dentries.
    pub used: u64,
}
