//! The trait that a file system implements.

use std::future::{Future, ready};

use crate::op::{self, FileLock};
use crate::session::MountInfo;
use crate::values::{
    AttrReply, CreateReply, EntryReply, IoctlReply, OpenReply, ReplyData, StatfsReply, StatxReply,
    XattrReply,
};
use crate::{Call, Dirents, DirentsPlus, Errno, Result};

macro_rules! operations {
    ($($(#[$doc:meta])* $method:ident($op:ty) -> $reply:ty;)*) => {
        /// One method per operation. A method that a file system does not implement replies ENOSYS; for most operations the
        /// kernel then never sends that request again and works without it.
        ///
        /// Write implementations as `async fn lookup(&self, call: Call, op: op::Lookup) -> Result<EntryReply>`. The worker
        /// thread that read the request polls the future once; if it is ready then, that thread writes the reply without
        /// involving another thread. Otherwise the `Spawner` gets the future when its waker is called. A method that blocks its
        /// thread blocks one of few workers: move such work into a task.
        pub trait FileSystem: Send + Sync + 'static {
            /// Called after INIT is negotiated and before any request is read. The implementation may keep the notifier.
            fn mounted(&self, mounted: &MountInfo) {
                let _ = mounted;
            }

            /// Called once when the connection has ended and no request will come, by the last worker, before
            /// `FuseSession::wait` returns.
            fn unmounted(&self) {}

            /// The kernel drops lookup references. It expects no reply.
            fn forget(&self, batch: Vec<op::Forget>) -> impl Future<Output = ()> + Send {
                let _ = batch;
                ready(())
            }

            /// Pages that `Notifier::retrieve` requested; `call.unique` is the number passed to it. The kernel expects no
            /// reply.
            fn retrieved(&self, call: Call, op: op::Retrieved) -> impl Future<Output = ()> + Send {
                let _ = (call, op);
                ready(())
            }

            $(
                $(#[$doc])*
                fn $method(&self, call: Call, op: $op) -> impl Future<Output = Result<$reply>> + Send {
                    let _ = (call, op);
                    ready(Err(Errno::ENOSYS))
                }
            )*
        }
    };
}

operations! {
    /// Look up a name in the directory `call.node`.
    lookup(op::Lookup) -> EntryReply;
    /// The attributes of `call.node`.
    getattr(op::Getattr) -> AttrReply;
    /// The attributes of `call.node` with the time of creation.
    statx(op::Statx) -> StatxReply;
    /// Change attributes; the reply carries the attributes after the change.
    setattr(op::Setattr) -> AttrReply;
    /// The target of the symbolic link `call.node`.
    readlink(()) -> Vec<u8>;
    /// Create a symbolic link in `call.node`.
    symlink(op::Symlink) -> EntryReply;
    /// Create a file, fifo, socket or device in `call.node`.
    mknod(op::Mknod) -> EntryReply;
    /// Create a directory in `call.node`.
    mkdir(op::Mkdir) -> EntryReply;
    /// Remove a name that is not a directory from `call.node`.
    unlink(op::Unlink) -> ();
    /// Remove an empty directory from `call.node`.
    rmdir(op::Rmdir) -> ();
    /// Rename.
    rename(op::Rename) -> ();
    /// Add a hard link in `call.node`.
    link(op::Link) -> EntryReply;
    /// Open the file `call.node`.
    open(op::Open) -> OpenReply;
    /// Create in `call.node` if absent, and open. After ENOSYS the kernel uses MKNOD and OPEN.
    create(op::Create) -> CreateReply;
    /// Create a file without a name, and open it (O_TMPFILE).
    tmpfile(op::Tmpfile) -> CreateReply;
    /// Read at most `op.size` bytes; fewer only at the end of the file.
    read(op::Read) -> ReplyData;
    /// Write; the reply is the number of bytes written.
    write(op::Write) -> u32;
    /// A program closes one descriptor of an open file.
    flush(op::Flush) -> ();
    /// The last descriptor and mapping of an open file is gone.
    release(op::Release) -> ();
    /// Make the file's written data durable.
    fsync(op::Fsync) -> ();
    /// Open the directory `call.node`.
    opendir(op::Open) -> OpenReply;
    /// List the names of an open directory.
    readdir(op::Readdir) -> Dirents;
    /// List names with attributes.
    readdirplus(op::Readdir) -> DirentsPlus;
    /// Close an open directory.
    releasedir(op::Release) -> ();
    /// Make the changes in a directory durable.
    fsyncdir(op::Fsync) -> ();
    /// Space and inode counts of the file system.
    statfs(()) -> StatfsReply;
    /// Make all changes in the file system durable.
    syncfs(()) -> ();
    setxattr(op::Setxattr) -> ();
    getxattr(op::Getxattr) -> XattrReply;
    listxattr(op::Listxattr) -> XattrReply;
    removexattr(op::Removexattr) -> ();
    /// The first lock that conflicts with this one; `LockKind::Unlock` if none does.
    getlk(op::Lock) -> FileLock;
    /// Lock or unlock at once, or reply EAGAIN.
    setlk(op::Lock) -> ();
    /// Lock, and wait for it; on `call.interrupted()` reply EINTR. Also unlocks: flock(2) without LOCK_NB sends an unlock this
    /// way.
    setlkw(op::Lock) -> ();
    /// Permission check for access(2); the kernel sends it only without default_permissions.
    access(op::Access) -> ();
    fallocate(op::Fallocate) -> ();
    /// Offset of the next hole or the next data.
    lseek(op::Lseek) -> u64;
    /// Copy between files; the reply is the number of bytes copied.
    copy_file_range(op::CopyFileRange) -> u64;
    bmap(op::Bmap) -> u64;
    ioctl(op::Ioctl) -> IoctlReply;
    /// Which of the requested POLL… events are ready.
    poll(op::Poll) -> u32;
}
