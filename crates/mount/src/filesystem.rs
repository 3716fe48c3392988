//! The file system of one mount: the client behind it, and what the kernel was told to cache.

use crate::cache_lifetimes::CacheLifetimes;
use crate::convert;
use crate::metrics::OpMetrics;
use crate::setid_inodes::SetidInodes;
use gupfs_client::Client;
use gupfs_fuse::{Notifier, NotifyError};
use gupfs_platform::Clock;
use gupfs_proto::{Attr, FsError, InodeId};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The file system that the fuse crate serves.
pub struct GupfsFileSystem {
    pub client: Arc<Client>,
    pub clock: Clock,
    pub lifetimes: CacheLifetimes,
    pub page_cache: bool,
    /// Requests that change anything are refused, whatever flags the kernel has for the mount (`mount -o remount,rw`).
    pub read_only: bool,
    pub setid_inodes: SetidInodes,
    /// Set once it is mounted.
    pub notifier: OnceLock<Notifier>,
    pub kernel_permissions: bool,
    /// The kernel sends lock requests.
    pub cluster_locks: bool,
    pub metrics: Arc<OpMetrics>,
}

impl GupfsFileSystem {
    /// How long the kernel may cache attributes that a reply carries.
    pub fn attributes_lifetime(&self, attr: &Attr) -> Duration {
        self.setid_inodes.attr_lifetime(attr, || self.clock.boot())
    }

    /// An unprivileged process has changed the file's data, so setuid and setgid are cleared: invalidates the kernel's attributes
    /// before the process gets its reply.
    pub fn privileges_killed(&self, ino: InodeId) {
        if self.setid_inodes.remove(ino) {
            self.invalidate_attributes(ino);
        }
    }

    /// Invalidates the kernel's attributes of an inode after a request that the kernel does not know to change them.
    pub fn invalidate_attributes(&self, ino: InodeId) {
        let Some(notifier) = self.notifier.get() else {
            return;
        };
        match notifier.inval_attributes(convert::node(ino)) {
            // The kernel has forgotten the inode meanwhile.
            Ok(()) | Err(NotifyError::Unknown) => {}
            Err(error) => {
                tracing::warn!(inode = format_args!("{:x}", ino.0), %error, "could not invalidate an inode's attributes in the kernel; programs may see old ones for some seconds");
            }
        }
    }

    /// # Errors
    /// `ReadOnly` on a read-only mount.
    pub fn check_writable(&self) -> Result<(), FsError> {
        match self.read_only {
            true => Err(FsError::ReadOnly),
            false => Ok(()),
        }
    }
}
