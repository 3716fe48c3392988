//! # mount: FUSE requests as calls of the client
//!
//! Owns   the conversion both ways, the only errno table, the kernel's cache lifetimes, the cache mode of each open file.
//! Never  implements file system semantics: the client and the servers do.
//! Enter  at `Mount::start`; one FUSE request is one function of `ops/`.

mod cache_lifetimes;
mod convert;
mod credentials;
mod errno;
mod filesystem;
mod limits;
mod metrics;
mod ops;
mod runtime_reader;
mod setid_inodes;
mod signals;

pub use cache_lifetimes::CacheLifetimes;
pub use errno::errno;
pub use metrics::{MountStats, OpMetrics, OpStats};

use filesystem::GupfsFileSystem;
use gupfs_client::Client;
use gupfs_fuse::{
    FuseSession, FuseTransport, InitFlags, MountConfig, MountError, Spawner, pages_limit,
};
use gupfs_platform::Clock;
use gupfs_proto::FsError;
use setid_inodes::SetidInodes;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Options of a FUSE mount.
#[derive(Clone, Debug)]
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
    pub reactors: Option<usize>,
    /// The async runtime polls /dev/fuse, without separate threads: for mounts whose calls mostly wait for servers on other
    /// hosts.
    pub on_runtime: bool,
    /// Deadline of a program's call; the call of a killed program ends at once. None: each call is answered when it is done. Only
    /// where the kernel caches nothing (`shared`): it does not learn of changes that are made after an early reply.
    pub call_deadlines: Option<CallDeadlines>,
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
            reactors: None,
            on_runtime: false,
            call_deadlines: None,
        }
    }

    /// Other mounts use the same files (`gupfs_client::SessionOptions::shared`): the kernel caches nothing and sends every
    /// request.
    pub fn shared(self) -> FuseMountOptions {
        FuseMountOptions {
            lifetimes: CacheLifetimes::SHARED,
            page_cache: false,
            cluster_locks: true,
            read_ahead_kib: None,
            ..self
        }
    }
}

/// Four pending requests of 1 MiB hide one round trip to the object store (bench/results, "read-ahead").
const READ_AHEAD_KIB: u32 = 4096;

/// A mounted file system. Unmount it before stopping the client.
pub struct Mount {
    session: FuseSession,
    metrics: Arc<OpMetrics>,
    at: PathBuf,
}

impl Mount {
    /// Mounts at an empty directory and starts serving; tasks that must wait run on `runtime`.
    ///
    /// # Errors
    /// The kernel's or mount point's error, worded for the user.
    pub fn start(
        client: Arc<Client>,
        at: &Path,
        options: &FuseMountOptions,
        runtime: &tokio::runtime::Handle,
    ) -> Result<Mount, MountError> {
        let mut config = MountConfig::new(options.source.clone(), "gupfs");
        config.read_only = options.read_only;
        config.allow_other = options.allow_other;
        config.no_suid = !options.allow_suid;
        config.no_dev = !options.allow_devices;
        config.no_exec = !options.allow_exec;
        config.no_atime = options.atime.never;
        config.strict_atime = options.atime.always;
        config.no_dir_atime = options.atime.not_of_directories;
        config.transport = options.transport;
        config.default_permissions = options.kernel_permissions;
        if !options.kernel_permissions {
            // This flag makes the kernel check permissions. ACLs still pass as extended attributes.
            config.wanted_flags -= InitFlags::POSIX_ACL;
        }
        if options.cluster_locks {
            config.required_flags |= InitFlags::POSIX_LOCKS | InitFlags::FLOCK_LOCKS;
        }
        if let Some(reactors) = options.reactors {
            config.device_workers = reactors;
        }
        config.reply_deadlines = options
            .call_deadlines
            .map(|in_time| gupfs_fuse::ReplyDeadlines {
                deadline: in_time.deadline,
                overdue_errno: errno::DEADLINE_ERRNO,
                killed_errno: errno(&FsError::Interrupted),
            });
        let reactor_runtime = runtime.clone();
        config.around_worker = Some(Arc::new(move |run| {
            let _in_runtime = reactor_runtime.enter();
            run();
        }));
        if options.on_runtime {
            let serving_runtime = runtime.clone();
            config.attach_reader = Some(Arc::new(move |reader| {
                drop(serving_runtime.spawn(runtime_reader::serve(reader)));
            }));
        }
        let waiting_runtime = runtime.clone();
        let spawner: Spawner = Arc::new(move |task| drop(waiting_runtime.spawn(task)));
        let metrics = Arc::new(OpMetrics::default());
        let fs = Arc::new(GupfsFileSystem {
            client,
            clock: Clock::real(),
            lifetimes: options.lifetimes,
            page_cache: options.page_cache,
            read_only: options.read_only,
            setid_inodes: SetidInodes::new(options.lifetimes.attributes),
            notifier: OnceLock::new(),
            kernel_permissions: options.kernel_permissions,
            cluster_locks: options.cluster_locks,
            metrics: metrics.clone(),
        });
        match pages_limit::raise(config.max_pages) {
            Ok(None) => {}
            Ok(Some(before)) => tracing::info!(
                before,
                now = config.max_pages,
                "raised fs.fuse.max_pages_limit, so that one request carries 1 MiB of any buffer"
            ),
            Err(error) => {
                tracing::info!(%error, "could not raise fs.fuse.max_pages_limit: a 1 MiB read or write of an unaligned buffer takes two requests");
            }
        }
        let session = gupfs_fuse::mount(at, &config, fs, spawner)?;
        if let Some(kib) = options.read_ahead_kib
            && let Err(error) = session.set_read_ahead(kib)
        {
            tracing::info!(%error, "could not set the mount's read-ahead; the kernel's default stays");
        }
        Ok(Mount {
            session,
            metrics,
            at: at.to_owned(),
        })
    }

    pub fn at(&self) -> &Path {
        &self.at
    }

    pub fn session(&self) -> &FuseSession {
        &self.session
    }

    pub fn stats(&self) -> MountStats {
        self.metrics.stats()
    }
}
