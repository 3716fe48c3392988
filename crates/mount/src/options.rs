//! Options of a FUSE mount, and what they mean to the crate `fuse`.

use crate::cache_lifetimes::CacheLifetimes;
use crate::errno::{DEADLINE_ERRNO, errno};
use crate::process_jobs::JobFinder;
use crate::runtime_reader;
use gupfs_fuse::{FuseTransport, InitFlags, MountConfig, ReplyDeadlines};
use gupfs_proto::FsError;
use std::sync::Arc;
use std::time::Duration;

/// Four pending requests of 1 MiB hide one round trip to the object store (bench/results, "read-ahead").
const READ_AHEAD_KIB: u32 = 4096;

/// Options of a FUSE mount.
#[derive(Clone)]
pub struct FuseMountOptions {
    /// The source that `mount` shows.
    pub source: String,
    pub read_only: bool,
    pub allow_other: bool,
    /// setuid programs run with their owner's rights, and device nodes work: off by default.
    pub allow_suid: bool,
    pub allow_devices: bool,
    /// Programs may be executed.
    pub allow_exec: bool,
    /// The atime flags that the list of mounts shows; the client maintains access times, not the kernel.
    pub atime: AtimeFlags,
    pub lifetimes: CacheLifetimes,
    /// Files are read through the kernel's page cache. Off where another mount may change them, and where the kernel keeps pages
    /// that are older than direct writes.
    pub page_cache: bool,
    /// The kernel checks permissions, by attributes that it caches or requests; otherwise only the servers check, which saves the
    /// kernel a GETATTR for each step of a path.
    pub kernel_permissions: bool,
    /// flock(2) and fcntl(2) locks exclude programs of all mounts, not only of this one.
    pub cluster_locks: bool,
    /// The kernel's read-ahead window for files read in order; None keeps the kernel's default.
    pub read_ahead_kib: Option<u32>,
    /// How requests come from the kernel: /dev/fuse or io_uring.
    pub transport: FuseTransport,
    /// Threads that read requests from /dev/fuse; None lets the fuse crate choose.
    pub device_workers: Option<usize>,
    /// The async runtime polls /dev/fuse, without separate threads: for mounts whose calls mostly wait for servers on other
    /// hosts.
    pub on_runtime: bool,
    /// Deadline of a program's call; the call of a killed program ends at once. None: each call is answered when it is done. Only
    /// for `shared` mounts: the kernel does not learn of changes that are made after an early reply, and there it caches nothing that a
    /// change under way may affect.
    pub call_deadlines: Option<CallDeadlines>,
    /// Names the jobs of processes, for the servers' accounting; None: calls belong to no job.
    pub jobs: Option<Arc<dyn JobFinder>>,
}

/// The mount flags noatime, strictatime and nodiratime.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AtimeFlags {
    pub never: bool,
    pub always: bool,
    pub not_of_directories: bool,
}

/// When calls are answered before they are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallDeadlines {
    /// None: the call of a running program has no deadline.
    pub deadline: Option<Duration>,
}

impl FuseMountOptions {
    pub fn new(source: impl Into<String>) -> FuseMountOptions {
        FuseMountOptions {
            source: source.into(),
            read_only: false,
            allow_other: true,
            allow_suid: false,
            allow_devices: false,
            allow_exec: true,
            atime: AtimeFlags::default(),
            lifetimes: CacheLifetimes::EXCLUSIVE,
            page_cache: true,
            kernel_permissions: true,
            cluster_locks: false,
            read_ahead_kib: Some(READ_AHEAD_KIB),
            transport: FuseTransport::Auto,
            device_workers: None,
            on_runtime: false,
            call_deadlines: None,
            jobs: None,
        }
    }

    /// Other mounts use the same files (`gupfs_client::SessionOptions::shared`): the kernel caches attributes while the client has
    /// leases on them, and nothing else.
    pub fn shared(self) -> FuseMountOptions {
        FuseMountOptions {
            lifetimes: CacheLifetimes::SHARED,
            page_cache: false,
            cluster_locks: true,
            read_ahead_kib: None,
            ..self
        }
    }

    /// The configuration of the FUSE session. Threads that serve requests enter `runtime`.
    pub(crate) fn to_config(&self, runtime: &tokio::runtime::Handle) -> MountConfig {
        let mut config = MountConfig::new(self.source.clone(), "gupfs");
        config.read_only = self.read_only;
        config.allow_other = self.allow_other;
        config.no_suid = !self.allow_suid;
        config.no_dev = !self.allow_devices;
        config.no_exec = !self.allow_exec;
        config.no_atime = self.atime.never;
        config.strict_atime = self.atime.always;
        config.no_dir_atime = self.atime.not_of_directories;
        config.transport = self.transport;
        config.default_permissions = self.kernel_permissions;
        if !self.kernel_permissions {
            // This flag makes the kernel check permissions. ACLs still pass as extended attributes.
            config.wanted_flags -= InitFlags::POSIX_ACL;
        }
        if self.cluster_locks {
            config.required_flags |= InitFlags::POSIX_LOCKS | InitFlags::FLOCK_LOCKS;
        }
        if let Some(device_workers) = self.device_workers {
            config.device_workers = device_workers;
        }
        config.reply_deadlines = self.call_deadlines.map(|deadlines| ReplyDeadlines {
            deadline: deadlines.deadline,
            overdue_errno: DEADLINE_ERRNO,
            killed_errno: errno(&FsError::Interrupted),
        });
        let entered_runtime = runtime.clone();
        config.around_worker = Some(Arc::new(move |run| {
            let _in_runtime = entered_runtime.enter();
            run();
        }));
        if self.on_runtime {
            let serving_runtime = runtime.clone();
            config.attach_reader = Some(Arc::new(move |reader| {
                drop(serving_runtime.spawn(runtime_reader::serve(reader)));
            }));
        }
        config
    }
}
