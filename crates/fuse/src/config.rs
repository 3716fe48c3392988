//! How to mount.

use std::sync::Arc;
use std::time::Duration;

use crate::limits::{REACTORS_MAX, REACTORS_MIN};
use crate::pages_limit;
use crate::wire::InitFlags;
use crate::{Errno, Reader};

/// Wraps the life of a reactor thread: it must call what it is given, once. So a thread can hold a guard, for example
/// of a runtime: `|run| { let _in = handle.enter(); run() }`.
pub type AroundReactor = Arc<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// Is given the requests of a mount while it is mounted, on the thread that mounts.
pub type OnLoop = Arc<dyn Fn(Reader) + Send + Sync>;

/// The way of requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// Rings if the kernel offers them and permits them to this process, else the device.
    #[default]
    Auto,
    /// One `read` a request, one `write` an answer.
    Device,
    /// FUSE over io_uring: one system call a turn, on the CPU on which the program asks. If that cannot be had the mount
    /// is refused. See `over_io_uring`.
    IoUring,
}

/// Answers that are given before their handlers are done, which go on. What they hand out then (a node, an open file) is given
/// back, and nothing begins on a node that must come after a change of it that is still under way.
///
/// For file systems that let the kernel keep nothing: it is not told of what a late handler changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InTime {
    /// How long a request may wait, but for one that waits for a lock. None: as long as it takes.
    pub deadline: Option<Duration>,
    /// What is answered then.
    pub overdue: Errno,
    /// What is answered to a program that is being ended by a signal. It does not see it.
    pub killed: Errno,
}

/// What to ask of the kernel and how to serve it.
#[derive(Clone)]
pub struct Config {
    /// What `mount` shows as the source.
    pub source: String,
    /// The mount has the type `fuse.<subtype>`.
    pub subtype: String,
    pub read_only: bool,
    /// Others than who mounted may use it. Without root this needs `user_allow_other` in /etc/fuse.conf.
    pub allow_other: bool,
    /// The kernel checks permissions by mode and ACL. POSIX_ACL implies it.
    pub default_permissions: bool,
    pub no_suid: bool,
    pub no_dev: bool,
    pub no_exec: bool,
    pub no_atime: bool,
    pub strict_atime: bool,
    pub no_dir_atime: bool,
    /// The largest READ, bytes; `None` leaves it to `max_pages`: large reads are not cut at each MiB then.
    pub max_read: Option<u32>,

    /// Flags to ask for. What the kernel lacks is left out; see `Negotiated`.
    pub want: InitFlags,
    /// Flags without which the mount is refused. They are asked for, too.
    pub must: InitFlags,
    /// The largest WRITE, bytes.
    pub max_write: u32,
    /// Pages of one request. The kernel cuts it to `fs.fuse.max_pages_limit` (256 unless raised, see [`crate::pages_limit`]).
    pub max_pages: u16,
    /// Bytes; the kernel cuts it to what it offers. See `Session::set_read_ahead` for more.
    pub max_readahead: u32,
    /// Requests nobody waits for (read-ahead, asynchronous I/O, RELEASE) at a time.
    pub max_background: u16,
    /// From so many on the kernel considers the mount busy.
    pub congestion_threshold: u16,
    /// Granularity of time stamps, nanoseconds.
    pub time_gran: u32,

    pub transport: Transport,
    /// Threads that read requests from the device, each from its own clone of it. Rings have a thread for each possible CPU.
    pub reactors: usize,
    /// Requests of the device are taken by an event loop of the caller's, and no thread of the door reads: what an answer waits
    /// for (a socket) wakes the same thread that answers then. Rings keep their threads.
    pub on_loop: Option<OnLoop>,
    /// Ask the device so long before going to sleep. Saves a wake-up if the program runs on another CPU, and takes
    /// its time if it does not.
    pub on_idle_spin: Option<Duration>,
    /// Each thread of a ring stays on the CPU whose requests it gets; without that rings are slower than the device. Threads
    /// that a handler starts there begin on that CPU, too.
    pub pin_rings: bool,
    pub around_reactor: Option<AroundReactor>,
    /// None: each answer is its handler's. Else a WRITE's bytes that came through a ring are copied, and `Call::scratch` is
    /// never memory of a ring.
    pub in_time: Option<InTime>,
}

impl Config {
    /// The flags of a file system that is coherent by leases: the kernel's caches follow our answers, nothing is
    /// cached for longer than they say. Locks are not among them: ask for POSIX_LOCKS and FLOCK_LOCKS if you have them.
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

    /// A mount for everyone, with permissions checked by the kernel, requests of 1 MiB.
    pub fn new(source: impl Into<String>, subtype: impl Into<String>) -> Config {
        Config {
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
            want: Config::FLAGS,
            must: InitFlags::INIT_EXT
                .union(InitFlags::MAX_PAGES)
                .union(InitFlags::BIG_WRITES),
            max_write: 1 << 20,
            max_pages: pages_limit::wanted(),
            max_readahead: 8 << 20,
            max_background: 64,
            congestion_threshold: 48,
            time_gran: 1,
            transport: Transport::Auto,
            reactors: default_reactors(),
            on_loop: None,
            on_idle_spin: None,
            pin_rings: true,
            around_reactor: None,
            in_time: None,
        }
    }
}

fn default_reactors() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    (2 * cpus).clamp(REACTORS_MIN, REACTORS_MAX)
}
