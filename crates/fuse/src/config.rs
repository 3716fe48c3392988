//! Options of a mount.

use std::time::Duration;

use crate::limits::{DEVICE_WORKERS_MAX, DEVICE_WORKERS_MIN};
use crate::pages_limit;
use crate::pending::ReplyDeadlines;
use crate::reader::AttachReader;
use crate::transport::FuseTransport;
use crate::wire::InitFlags;
use crate::worker_thread::AroundWorker;

/// What to request from the kernel at INIT, and how to serve the mount.
#[derive(Clone)]
pub struct MountConfig {
    /// The source that `mount` shows.
    pub source: String,
    /// The mount has the type `fuse.<subtype>`.
    pub subtype: String,
    pub read_only: bool,
    /// Users other than the one who mounted may use it. Without root this needs `user_allow_other` in /etc/fuse.conf.
    pub allow_other: bool,
    /// The kernel checks permissions by mode and ACL. POSIX_ACL implies it.
    pub default_permissions: bool,
    pub no_suid: bool,
    pub no_dev: bool,
    pub no_exec: bool,
    pub no_atime: bool,
    pub strict_atime: bool,
    pub no_dir_atime: bool,
    /// The largest READ in bytes; with `None` only `max_pages` limits it, so large reads are not split at each MiB.
    pub max_read: Option<u32>,

    /// Flags to request. Flags that the kernel lacks are left out; see `Negotiated`.
    pub wanted_flags: InitFlags,
    /// Flags without which mounting fails. They are requested as well.
    pub required_flags: InitFlags,
    /// The largest WRITE in bytes.
    pub max_write: u32,
    /// Pages of one request. The kernel limits it to `fs.fuse.max_pages_limit` (256 unless raised, see [`crate::pages_limit`]).
    pub max_pages: u16,
    /// Read-ahead in bytes; the kernel limits it to its own offer. See `FuseSession::set_read_ahead` for more.
    pub max_readahead: u32,
    /// Background requests in flight at a time: requests that no program waits for (read-ahead, asynchronous I/O, RELEASE).
    pub max_background: u16,
    /// Number of background requests above which the kernel considers the mount congested.
    pub congestion_threshold: u16,
    /// Granularity of time stamps in nanoseconds.
    pub time_gran: u32,

    pub transport: FuseTransport,
    /// Threads that read requests from the device, each from its own clone of it. Over io_uring there is also one thread per
    /// possible CPU.
    pub device_workers: usize,
    /// An event loop of the caller reads the device's requests, and this crate starts no thread that reads it: an event that a
    /// reply waits for (on a socket) then wakes the same thread that sends the reply. Rings keep their threads.
    pub attach_reader: Option<AttachReader>,
    /// Poll the device this long before sleeping. It saves a wake-up if the calling program runs on another CPU, and costs the
    /// program CPU time if it runs on the same one.
    pub idle_spin: Option<Duration>,
    /// Pins each ring thread to the CPU whose requests it gets; without it rings are slower than the device. A thread that a
    /// handler starts there inherits the CPU.
    pub pin_rings: bool,
    pub around_worker: Option<AroundWorker>,
    /// None: each reply is its handler's. Otherwise the bytes of a WRITE that came through a ring are copied, and
    /// `Call::scratch` is never memory of a ring.
    pub reply_deadlines: Option<ReplyDeadlines>,
}

impl MountConfig {
    /// The flags of a file system that is coherent by leases: the kernel's caches follow our replies, and nothing is cached
    /// longer than the replies allow. Locks are not included: request POSIX_LOCKS and FLOCK_LOCKS if the file system implements
    /// them.
    pub const FLAGS: InitFlags = InitFlags::AUTO_INVAL_DATA
        .union(InitFlags::PARALLEL_DIROPS)
        .union(InitFlags::ATOMIC_O_TRUNC)
        .union(InitFlags::HANDLE_KILLPRIV_V2)
        .union(InitFlags::POSIX_ACL)
        .union(InitFlags::DO_READDIRPLUS)
        .union(InitFlags::READDIRPLUS_AUTO)
        .union(InitFlags::DIRECT_IO_ALLOW_MMAP)
        .union(InitFlags::MAX_PAGES)
        .union(InitFlags::ASYNC_READ)
        .union(InitFlags::ASYNC_DIO)
        .union(InitFlags::BIG_WRITES)
        .union(InitFlags::DONT_MASK)
        .union(InitFlags::INIT_EXT)
        .union(InitFlags::SETXATTR_EXT)
        .union(InitFlags::CREATE_SUPP_GROUP)
        .union(InitFlags::EXPORT_SUPPORT)
        .union(InitFlags::HAS_RESEND);

    /// A mount for all users, with permissions checked by the kernel and requests of up to 1 MiB.
    pub fn new(source: impl Into<String>, subtype: impl Into<String>) -> MountConfig {
        MountConfig {
            source: source.into(),
            subtype: subtype.into(),
            read_only: false,
            allow_other: true,
            default_permissions: true,
            no_suid: true,
            no_dev: true,
            no_exec: false,
            no_atime: false,
            strict_atime: false,
            no_dir_atime: false,
            max_read: Some(1 << 20),
            wanted_flags: MountConfig::FLAGS,
            required_flags: InitFlags::INIT_EXT
                .union(InitFlags::MAX_PAGES)
                .union(InitFlags::BIG_WRITES),
            max_write: 1 << 20,
            max_pages: pages_limit::wanted(),
            max_readahead: 8 << 20,
            max_background: 64,
            congestion_threshold: 48,
            time_gran: 1,
            transport: FuseTransport::Auto,
            device_workers: default_workers(),
            attach_reader: None,
            idle_spin: None,
            pin_rings: true,
            around_worker: None,
            reply_deadlines: None,
        }
    }
}

fn default_workers() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    (2 * cpus).clamp(DEVICE_WORKERS_MIN, DEVICE_WORKERS_MAX)
}
