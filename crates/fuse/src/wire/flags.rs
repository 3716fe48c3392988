//! The bit sets of the protocol. Unknown bits are kept, not dropped: a newer kernel may send them.

use bitflags::bitflags;

bitflags! {
    /// Features that kernel and server negotiate in INIT. Bits 32 and up are in `flags2`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct InitFlags: u64 {
        /// Parallel reads of one file.
        const ASYNC_READ = 1 << 0;
        /// The kernel sends fcntl locks to the server.
        const POSIX_LOCKS = 1 << 1;
        /// O_TRUNC comes with OPEN instead of as a SETATTR before it.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// The server replies to LOOKUP of "." and "..": the mount can be exported and opened by handle.
        const EXPORT_SUPPORT = 1 << 4;
        /// Writes above 4 KiB.
        const BIG_WRITES = 1 << 5;
        /// The kernel does not apply the umask; it comes with the request.
        const DONT_MASK = 1 << 6;
        const SPLICE_WRITE = 1 << 7;
        const SPLICE_MOVE = 1 << 8;
        const SPLICE_READ = 1 << 9;
        /// The kernel sends flock locks to the server.
        const FLOCK_LOCKS = 1 << 10;
        const HAS_IOCTL_DIR = 1 << 11;
        /// The kernel drops cached pages when a reply carries another size or mtime.
        const AUTO_INVAL_DATA = 1 << 12;
        const DO_READDIRPLUS = 1 << 13;
        /// The kernel chooses between READDIR and READDIRPLUS.
        const READDIRPLUS_AUTO = 1 << 14;
        const ASYNC_DIO = 1 << 15;
        const WRITEBACK_CACHE = 1 << 16;
        const NO_OPEN_SUPPORT = 1 << 17;
        /// Parallel LOOKUP and READDIR in one directory.
        const PARALLEL_DIROPS = 1 << 18;
        const HANDLE_KILLPRIV = 1 << 19;
        /// ACLs are stored as xattrs, and the kernel checks them.
        const POSIX_ACL = 1 << 20;
        /// A reader of an aborted connection gets ECONNABORTED instead of ENODEV.
        const ABORT_ERROR = 1 << 21;
        /// `max_pages` is valid.
        const MAX_PAGES = 1 << 22;
        const CACHE_SYMLINKS = 1 << 23;
        const NO_OPENDIR_SUPPORT = 1 << 24;
        const EXPLICIT_INVAL_DATA = 1 << 25;
        const MAP_ALIGNMENT = 1 << 26;
        const SUBMOUNTS = 1 << 27;
        /// The server clears setuid, setgid and capabilities on write, truncate and chown.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// SETXATTR has its long form.
        const SETXATTR_EXT = 1 << 29;
        /// `flags2` is valid.
        const INIT_EXT = 1 << 30;
        const SECURITY_CTX = 1 << 32;
        const HAS_INODE_DAX = 1 << 33;
        /// Creating requests carry the directory's group if the caller is a member.
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

    /// How the kernel treats an open file (replies to OPEN, CREATE, TMPFILE, OPENDIR).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct OpenReplyFlags: u32 {
        const DIRECT_IO = 1 << 0;
        /// The kernel keeps pages that were cached before the open.
        const KEEP_CACHE = 1 << 1;
        const NONSEEKABLE = 1 << 2;
        /// OPENDIR: the kernel may cache the listing.
        const CACHE_DIR = 1 << 3;
        const STREAM = 1 << 4;
        /// No FLUSH at close.
        const NOFLUSH = 1 << 5;
        const PARALLEL_DIRECT_WRITES = 1 << 6;
        const PASSTHROUGH = 1 << 7;
    }

    /// Which fields of SETATTR are valid.
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
        /// The handle is valid.
        const FH = 1 << 0;
    }

    /// Flags of OPEN and CREATE, in addition to the program's own flags.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct OpenFlags: u32 {
        /// O_TRUNC of a caller without CAP_FSETID: clear setuid and setgid.
        const KILL_SUIDGID = 1 << 0;
    }

    /// READ, READDIR, READDIRPLUS.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct ReadFlags: u32 {
        /// A program's direct read that bypasses the page cache; the lock owner is valid. Without it the read is for the page
        /// cache.
        const LOCKOWNER = 1 << 1;
    }

    /// WRITE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct WriteFlags: u32 {
        /// Write-back from the page cache, later than the program's store; handle and caller are guesses of the kernel.
        const CACHE = 1 << 0;
        /// The lock owner is valid.
        const LOCKOWNER = 1 << 1;
        /// The caller has no CAP_FSETID: clear setuid and setgid.
        const KILL_SUIDGID = 1 << 2;
    }

    /// RELEASE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct ReleaseFlags: u32 {
        const FLUSH = 1 << 0;
        /// The file held a flock, which the server must release.
        const FLOCK_UNLOCK = 1 << 1;
    }

    /// FSYNC and FSYNCDIR.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct FsyncFlags: u32 {
        /// fdatasync: the data, and the metadata needed to read it.
        const DATASYNC = 1 << 0;
    }

    /// Flags of SETXATTR, in addition to the program's XATTR_CREATE and XATTR_REPLACE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct SetxattrFlags: u32 {
        /// An access ACL of a caller outside the group: clear setgid.
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
        /// Call `Notifier::poll` when one of the events occurs.
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
    /// The half in `flags`.
    pub fn low(self) -> u32 {
        self.bits() as u32
    }

    /// The half in `flags2`.
    pub fn high(self) -> u32 {
        (self.bits() >> 32) as u32
    }

    pub fn from_halves(low: u32, high: u32) -> InitFlags {
        InitFlags::from_bits_retain(u64::from(low) | u64::from(high) << 32)
    }
}
