//! The bit sets of the protocol. Bits without a name here are kept, not dropped: a newer kernel may send them.

use bitflags::bitflags;

bitflags! {
    /// What kernel and server agree on when they meet (INIT). Bits 32 and up travel in `flags2`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct InitFlags: u64 {
        /// Several reads of one file at a time.
        const ASYNC_READ = 1 << 0;
        /// fcntl locks are asked of the server.
        const POSIX_LOCKS = 1 << 1;
        /// O_TRUNC comes with OPEN instead of as a SETATTR before it.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// LOOKUP of "." and ".." is answered: the mount can be exported and opened by handle.
        const EXPORT_SUPPORT = 1 << 4;
        /// Writes above 4 KiB.
        const BIG_WRITES = 1 << 5;
        /// The kernel does not apply the umask; it comes with the request.
        const DONT_MASK = 1 << 6;
        const SPLICE_WRITE = 1 << 7;
        const SPLICE_MOVE = 1 << 8;
        const SPLICE_READ = 1 << 9;
        /// flock locks are asked of the server.
        const FLOCK_LOCKS = 1 << 10;
        const HAS_IOCTL_DIR = 1 << 11;
        /// Cached pages are dropped when an answer brings another size or mtime.
        const AUTO_INVAL_DATA = 1 << 12;
        const DO_READDIRPLUS = 1 << 13;
        /// The kernel chooses between READDIR and READDIRPLUS.
        const READDIRPLUS_AUTO = 1 << 14;
        const ASYNC_DIO = 1 << 15;
        const WRITEBACK_CACHE = 1 << 16;
        const NO_OPEN_SUPPORT = 1 << 17;
        /// LOOKUP and READDIR of one directory go in parallel.
        const PARALLEL_DIROPS = 1 << 18;
        const HANDLE_KILLPRIV = 1 << 19;
        /// ACLs are kept as xattrs and checked by the kernel.
        const POSIX_ACL = 1 << 20;
        /// A reader of an aborted connection gets ECONNABORTED instead of ENODEV.
        const ABORT_ERROR = 1 << 21;
        /// `max_pages` counts.
        const MAX_PAGES = 1 << 22;
        const CACHE_SYMLINKS = 1 << 23;
        const NO_OPENDIR_SUPPORT = 1 << 24;
        const EXPLICIT_INVAL_DATA = 1 << 25;
        const MAP_ALIGNMENT = 1 << 26;
        const SUBMOUNTS = 1 << 27;
        /// The server takes setuid, setgid and capabilities away on write, truncate and chown.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// SETXATTR has its long form.
        const SETXATTR_EXT = 1 << 29;
        /// `flags2` counts.
        const INIT_EXT = 1 << 30;
        const SECURITY_CTX = 1 << 32;
        const HAS_INODE_DAX = 1 << 33;
        /// Creating requests say if the caller is in the directory's group.
        const CREATE_SUPP_GROUP = 1 << 34;
        const HAS_EXPIRE_ONLY = 1 << 35;
        /// A file opened with DIRECT_IO can be mapped shared.
        const DIRECT_IO_ALLOW_MMAP = 1 << 36;
        const PASSTHROUGH = 1 << 37;
        const NO_EXPORT_SUPPORT = 1 << 38;
        /// `Notifier::resend` works.
        const HAS_RESEND = 1 << 39;
        const ALLOW_IDMAP = 1 << 40;
        const OVER_IO_URING = 1 << 41;
        const REQUEST_TIMEOUT = 1 << 42;
    }

    /// How the kernel shall treat an open file (answers to OPEN, CREATE, TMPFILE, OPENDIR).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct OpenedFlags: u32 {
        const DIRECT_IO = 1 << 0;
        /// Pages that were cached before stay.
        const KEEP_CACHE = 1 << 1;
        const NONSEEKABLE = 1 << 2;
        /// OPENDIR: the names read may be cached.
        const CACHE_DIR = 1 << 3;
        const STREAM = 1 << 4;
        /// No FLUSH at close.
        const NOFLUSH = 1 << 5;
        const PARALLEL_DIRECT_WRITES = 1 << 6;
        const PASSTHROUGH = 1 << 7;
    }

    /// Which fields of SETATTR count.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct SetattrValid: u32 {
        const MODE = 1 << 0;
        const UID = 1 << 1;
        const GID = 1 << 2;
        const SIZE = 1 << 3;
        const ATIME = 1 << 4;
        const MTIME = 1 << 5;
        const FH = 1 << 6;
        const ATIME_NOW = 1 << 7;
        const MTIME_NOW = 1 << 8;
        const LOCKOWNER = 1 << 9;
        const CTIME = 1 << 10;
        const KILL_SUIDGID = 1 << 11;
    }

    /// GETATTR and STATX.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct GetattrFlags: u32 {
        /// The handle counts.
        const FH = 1 << 0;
    }

    /// OPEN and CREATE, beside the program's own flags.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct OpenFlags: u32 {
        /// O_TRUNC of a caller without CAP_FSETID: take setuid and setgid away.
        const KILL_SUIDGID = 1 << 0;
    }

    /// READ, READDIR, READDIRPLUS.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct ReadFlags: u32 {
        /// A program's own read, past the page cache; the lock owner counts. Without it the page cache asks.
        const LOCKOWNER = 1 << 1;
    }

    /// WRITE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct WriteFlags: u32 {
        /// From the page cache, later than the program's store; handle and caller are guessed.
        const CACHE = 1 << 0;
        /// The lock owner counts.
        const LOCKOWNER = 1 << 1;
        /// The caller has no CAP_FSETID: take setuid and setgid away.
        const KILL_SUIDGID = 1 << 2;
    }

    /// RELEASE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct ReleaseFlags: u32 {
        const FLUSH = 1 << 0;
        /// The file held a flock; let it go.
        const FLOCK_UNLOCK = 1 << 1;
    }

    /// FSYNC and FSYNCDIR.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct FsyncFlags: u32 {
        /// fdatasync: bytes, and what finds them.
        const DATASYNC = 1 << 0;
    }

    /// SETXATTR, beside the program's XATTR_CREATE and XATTR_REPLACE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct SetxattrFlags: u32 {
        /// An access ACL of a caller outside the group: take setgid away.
        const ACL_KILL_SGID = 1 << 0;
    }

    /// GETLK, SETLK, SETLKW.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct LockFlags: u32 {
        /// flock, not fcntl.
        const FLOCK = 1 << 0;
    }

    /// IOCTL.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct IoctlFlags: u32 {
        const COMPAT = 1 << 0;
        const UNRESTRICTED = 1 << 1;
        const RETRY = 1 << 2;
        const BITS_32 = 1 << 3;
        const DIR = 1 << 4;
        const COMPAT_X32 = 1 << 5;
    }

    /// POLL.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct PollFlags: u32 {
        /// Tell the kernel with `Notifier::poll` when something happens.
        const SCHEDULE_NOTIFY = 1 << 0;
    }

    /// Kinds of attributes of an inode.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct AttrFlags: u32 {
        const SUBMOUNT = 1 << 0;
        const DAX = 1 << 1;
    }
}

impl InitFlags {
    /// The half that travels in `flags`.
    pub fn low(self) -> u32 {
        self.bits() as u32
    }

    /// The half that travels in `flags2`.
    pub fn high(self) -> u32 {
        (self.bits() >> 32) as u32
    }

    pub fn from_halves(low: u32, high: u32) -> InitFlags {
        InitFlags::from_bits_retain(u64::from(low) | u64::from(high) << 32)
    }
}
