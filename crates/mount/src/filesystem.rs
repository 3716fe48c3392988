//! The file system of one mount: the client behind it, and what the kernel was told to cache.

use crate::cache_lifetimes::{AttributeLifetime, CacheLifetimes};
use crate::convert;
use crate::fuse_op::FuseOp;
use crate::kernel_caches::{InodesOf, KernelCaches};
use crate::metrics::OpMetrics;
use crate::options::FuseMountOptions;
use crate::process_jobs::ProcessJobs;
use crate::setid_inodes::SetidInodes;
use gupfs_client::Client;
use gupfs_fuse::NotifyError;
use gupfs_platform::{Clock, CurrentCall};
use gupfs_proto::{Attr, FsError, InodeId, JobId};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The file system that the fuse crate serves.
pub struct GupfsFileSystem {
    pub(crate) client: Arc<Client>,
    pub(crate) clock: Clock,
    pub(crate) lifetimes: CacheLifetimes,
    pub(crate) page_cache: bool,
    /// Requests that change anything are refused, whatever flags the kernel has for the mount (`mount -o remount,rw`).
    pub(crate) read_only: bool,
    pub(crate) setid_inodes: SetidInodes,
    /// Set once it is mounted.
    kernel_caches: OnceLock<Arc<dyn KernelCaches>>,
    pub(crate) kernel_permissions: bool,
    /// The kernel sends lock requests.
    pub(crate) cluster_locks: bool,
    pub(crate) metrics: Arc<OpMetrics>,
    process_jobs: Option<ProcessJobs>,
}

impl GupfsFileSystem {
    /// The file system of a client, not mounted yet.
    pub fn new(client: Arc<Client>, clock: Clock, options: &FuseMountOptions) -> GupfsFileSystem {
        GupfsFileSystem {
            client,
            clock,
            lifetimes: options.lifetimes,
            page_cache: options.page_cache,
            read_only: options.read_only,
            setid_inodes: SetidInodes::new(match options.lifetimes.attributes {
                AttributeLifetime::Fixed(lifetime) => lifetime,
                AttributeLifetime::Leased => Duration::ZERO,
            }),
            kernel_caches: OnceLock::new(),
            kernel_permissions: options.kernel_permissions,
            cluster_locks: options.cluster_locks,
            metrics: Arc::default(),
            process_jobs: options.jobs.clone().map(ProcessJobs::new),
        }
    }

    /// The call of a process.
    ///
    /// For a closed file the process is not looked at: execve(2) closes files under locks that a look at the process may wait for. The client
    /// knows which job opened the file.
    pub(crate) fn current_call(&self, op: FuseOp, pid: u32, uid: u32) -> CurrentCall {
        let closes = matches!(op, FuseOp::Flush | FuseOp::Release | FuseOp::Releasedir);
        let job = match &self.process_jobs {
            Some(jobs) if !closes => {
                let now = self.clock.boot();
                jobs.job_of(pid, uid, now, |label| self.client.name_job(label))
            }
            _ => JobId::UNKNOWN,
        };
        CurrentCall { job }
    }

    /// Called once the file system is mounted.
    pub fn set_kernel_caches(&self, kernel_caches: Arc<dyn KernelCaches>) {
        // A file system is mounted once.
        let _ = self.kernel_caches.set(kernel_caches.clone());
        if self.lifetimes.attributes == AttributeLifetime::Leased {
            self.client.set_kernel(Arc::new(InodesOf(kernel_caches)));
        }
    }

    /// How long the kernel may cache attributes that a reply carries. The lookup of the inode is counted.
    pub fn attributes_lifetime(&self, attr: &Attr) -> Duration {
        match self.lifetimes.attributes {
            // The client invalidates the attributes before each of its changes, so setuid and setgid need no list.
            AttributeLifetime::Leased => self.client.attributes_lifetime(attr),
            AttributeLifetime::Fixed(_) => {
                self.setid_inodes.attr_lifetime(attr, || self.clock.boot())
            }
        }
    }

    /// The same in the reply to the creation of a file.
    pub fn new_file_attributes_lifetime(&self, attr: &Attr) -> Duration {
        match self.lifetimes.attributes {
            AttributeLifetime::Leased => self.client.new_file_attributes_lifetime(attr),
            AttributeLifetime::Fixed(_) => self.attributes_lifetime(attr),
        }
    }

    /// The same for entries of a listing, whose lookups are counted later.
    pub fn listed_attributes_lifetime(&self, attr: &Attr) -> Duration {
        match self.lifetimes.attributes {
            AttributeLifetime::Leased => Duration::ZERO,
            AttributeLifetime::Fixed(_) => self.attributes_lifetime(attr),
        }
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
        let Some(kernel_caches) = self.kernel_caches.get() else {
            return;
        };
        match kernel_caches.inval_attributes(convert::node(ino)) {
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
