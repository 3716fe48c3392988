//! # mount: the kernel's requests as calls of the client
//!
//! Owns   the translation both ways, the only errno table, how long the kernel may believe what, which door an open file gets.
//! Never  decides what a file system does: that is the client's and the servers' affair.
//! Enter  at `Mount::start`; one kernel request is one function of `ops/`.

mod callers;
mod convert;
mod errno;
mod kernel;
mod lifetimes;
mod limits;
mod meter;
mod ops;
mod privileged;
mod signals;
mod watched;

pub use errno::errno;
pub use lifetimes::Lifetimes;
pub use meter::{Meter, MountStats, OpStats};

use gupfs_client::Client;
use gupfs_fuse::{Config, InitFlags, MountError, Session, Spawner, Transport, pages_limit};
use gupfs_platform::Clock;
use gupfs_proto::Refusal;
use kernel::Kernel;
use privileged::Privileged;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How a mount is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// What `mount` shows as the source.
    pub source: String,
    pub read_only: bool,
    pub allow_other: bool,
    /// Programs may run setuid, and device nodes work: off unless asked for.
    pub allow_suid: bool,
    pub allow_devices: bool,
    /// Programs may be run.
    pub allow_exec: bool,
    /// What the list of mounts shows of the client's rule for access times; the kernel keeps none by itself.
    pub atime: ShownAtime,
    pub lifetimes: Lifetimes,
    /// Files are read through the kernel's page cache. Not where another mount may change them, nor where it keeps pages that are older than what was written past it.
    pub page_cache: bool,
    /// The kernel checks permissions, by attributes that it has or asks for; else the servers alone do, which saves it the
    /// question before each step of a path.
    pub kernel_permissions: bool,
    /// flock(2) and fcntl(2) lock among all mounts, not the programs of this one alone.
    pub locks: bool,
    /// The kernel reads ahead so much in files read in order; None keeps its own figure.
    pub read_ahead_kib: Option<u32>,
    /// The way requests come from the kernel.
    pub transport: Transport,
    /// Threads that take requests from /dev/fuse; None lets the door choose.
    pub reactors: Option<usize>,
    /// Requests from /dev/fuse are events of the runtime, and no thread takes them: for mounts whose calls wait for servers elsewhere
    /// more often than not.
    pub on_runtime: bool,
    /// How long a call of a program may wait, and that a killed program's does not wait at all. None: each call is answered when
    /// it is done. Only where the kernel keeps nothing (`shared`): it is not told of what is done after the answer.
    pub in_time: Option<InTime>,
}

/// The mount flags noatime, strictatime and nodiratime.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShownAtime {
    pub never: bool,
    pub always: bool,
    pub not_of_directories: bool,
}

/// When calls are answered that are not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InTime {
    /// None: a living program waits as long as it takes.
    pub deadline: Option<Duration>,
}

impl Options {
    pub fn new(source: impl Into<String>) -> Options {
        Options {
            source: source.into(),
            read_only: false,
            allow_other: true,
            allow_suid: false,
            allow_devices: false,
            allow_exec: true,
            atime: ShownAtime::default(),
            lifetimes: Lifetimes::ALONE,
            page_cache: true,
            kernel_permissions: true,
            locks: false,
            read_ahead_kib: Some(READ_AHEAD_KIB),
            transport: Transport::Auto,
            reactors: None,
            on_runtime: false,
            in_time: None,
        }
    }

    /// Other mounts use the same files (`gupfs_client::Options::shared`): the kernel keeps nothing, and asks each time.
    pub fn shared(self) -> Options {
        Options {
            lifetimes: Lifetimes::SHARED,
            page_cache: false,
            locks: true,
            read_ahead_kib: None,
            ..self
        }
    }
}

/// Four requests of 1 MiB under way hide a trip through the object store (bench/results, "read-ahead").
const READ_AHEAD_KIB: u32 = 4096;

/// A mounted file system. Unmount it before the client is stopped.
pub struct Mount {
    session: Session,
    meter: Arc<Meter>,
    at: PathBuf,
}

impl Mount {
    /// Mounts at an empty directory and serves from here on; tasks that must wait run on `runtime`.
    ///
    /// # Errors
    /// What the kernel or the mount point refused, in words for the user.
    pub fn start(
        client: Arc<Client>,
        at: &Path,
        options: &Options,
        runtime: &tokio::runtime::Handle,
    ) -> Result<Mount, MountError> {
        let mut config = Config::new(options.source.clone(), "gupfs");
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
            // It makes the kernel check. Lists pass as extended attributes all the same.
            config.want -= InitFlags::POSIX_ACL;
        }
        if options.locks {
            config.must |= InitFlags::POSIX_LOCKS | InitFlags::FLOCK_LOCKS;
        }
        if let Some(reactors) = options.reactors {
            config.reactors = reactors;
        }
        config.in_time = options.in_time.map(|in_time| gupfs_fuse::InTime {
            deadline: in_time.deadline,
            overdue: errno::OVERDUE,
            killed: errno(&Refusal::Interrupted),
        });
        let reactor_runtime = runtime.clone();
        config.around_reactor = Some(Arc::new(move |run| {
            let _in_runtime = reactor_runtime.enter();
            run();
        }));
        if options.on_runtime {
            let serving_runtime = runtime.clone();
            config.on_loop = Some(Arc::new(move |reader| {
                drop(serving_runtime.spawn(watched::serve(reader)));
            }));
        }
        let waiting_runtime = runtime.clone();
        let spawner: Spawner = Arc::new(move |task| drop(waiting_runtime.spawn(task)));
        let meter = Arc::new(Meter::default());
        let kernel = Arc::new(Kernel {
            client,
            clock: Clock::real(),
            lifetimes: options.lifetimes,
            page_cache: options.page_cache,
            read_only: options.read_only,
            privileged: Privileged::new(options.lifetimes.attributes),
            notifier: OnceLock::new(),
            kernel_permissions: options.kernel_permissions,
            locks: options.locks,
            meter: meter.clone(),
        });
        match pages_limit::raise(config.max_pages) {
            Ok(None) => {}
            Ok(Some(before)) => tracing::info!(
                before,
                now = config.max_pages,
                "fs.fuse.max_pages_limit raised, so that one request carries a MiB of any buffer"
            ),
            Err(error) => {
                tracing::info!(%error, "fs.fuse.max_pages_limit stays: a MiB of a buffer that does not begin on a page is two requests");
            }
        }
        let session = gupfs_fuse::mount(at, &config, kernel, spawner)?;
        if let Some(kib) = options.read_ahead_kib
            && let Err(error) = session.set_read_ahead(kib)
        {
            tracing::info!(%error, "the kernel's own read-ahead stays");
        }
        Ok(Mount {
            session,
            meter,
            at: at.to_owned(),
        })
    }

    pub fn at(&self) -> &Path {
        &self.at
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    pub fn stats(&self) -> MountStats {
        self.meter.stats()
    }
}
