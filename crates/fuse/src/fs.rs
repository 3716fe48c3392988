//! The trait that a file system implements.

use std::future::{Future, Ready, ready};

use crate::mount_info::MountInfo;
use crate::op::{self, FileLock};
use crate::values::{
    AttrReply, CreateReply, EntryReply, IoctlReply, OpenReply, ReplyData, StatfsReply, StatxReply,
    XattrReply,
};
use crate::{Call, Dirents, DirentsPlus, Errno, Result};

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

    /// Look up a name in the directory `call.node`.
    fn lookup(
        &self,
        call: Call,
        op: op::Lookup,
    ) -> impl Future<Output = Result<EntryReply>> + Send {
        not_implemented(call, op)
    }

    /// The attributes of `call.node`.
    fn getattr(
        &self,
        call: Call,
        op: op::Getattr,
    ) -> impl Future<Output = Result<AttrReply>> + Send {
        not_implemented(call, op)
    }

    /// The attributes of `call.node` with the time of creation.
    fn statx(&self, call: Call, op: op::Statx) -> impl Future<Output = Result<StatxReply>> + Send {
        not_implemented(call, op)
    }

    /// Change attributes; the reply carries the attributes after the change.
    fn setattr(
        &self,
        call: Call,
        op: op::Setattr,
    ) -> impl Future<Output = Result<AttrReply>> + Send {
        not_implemented(call, op)
    }

    /// The target of the symbolic link `call.node`.
    fn readlink(&self, call: Call, op: ()) -> impl Future<Output = Result<Vec<u8>>> + Send {
        not_implemented(call, op)
    }

    /// Create a symbolic link in `call.node`.
    fn symlink(
        &self,
        call: Call,
        op: op::Symlink,
    ) -> impl Future<Output = Result<EntryReply>> + Send {
        not_implemented(call, op)
    }

    /// Create a file, fifo, socket or device in `call.node`.
    fn mknod(&self, call: Call, op: op::Mknod) -> impl Future<Output = Result<EntryReply>> + Send {
        not_implemented(call, op)
    }

    /// Create a directory in `call.node`.
    fn mkdir(&self, call: Call, op: op::Mkdir) -> impl Future<Output = Result<EntryReply>> + Send {
        not_implemented(call, op)
    }

    /// Remove a name that is not a directory from `call.node`.
    fn unlink(&self, call: Call, op: op::Unlink) -> impl Future<Output = Result<()>> + Send {
        not_implemented(call, op)
    }

    /// Remove an empty directory from `call.node`.
    fn rmdir(&self, call: Call, op: op::Rmdir) -> impl Future<Output = Result<()>> + Send {
        not_implemented(call, op)
    }

    /// Rename.
    fn rename(&self, call: Call, op: op::Rename) -> impl Future<Output = Result<()>> + Send {
        not_implemented(call, op)
    }

    /// Add a hard link in `call.node`.
    fn link(&self, call: Call, op: op::Link) -> impl Future<Output = Result<EntryReply>> + Send {
        not_implemented(call, op)
    }

    /// Open the file `call.node`.
    fn open(&self, call: Call, op: op::Open) -> impl Future<Output = Result<OpenReply>> + Send {
        not_implemented(call, op)
    }

    /// Create in `call.node` if absent, and open. After ENOSYS the kernel uses MKNOD and OPEN.
    fn create(
        &self,
        call: Call,
        op: op::Create,
    ) -> impl Future<Output = Result<CreateReply>> + Send {
        not_implemented(call, op)
    }

    /// Create a file without a name, and open it (O_TMPFILE).
    fn tmpfile(
        &self,
        call: Call,
        op: op::Tmpfile,
    ) -> impl Future<Output = Result<CreateReply>> + Send {
        not_implemented(call, op)
    }

    /// Read at most `op.size` bytes; fewer only at the end of the file.
    fn read(&self, call: Call, op: op::Read) -> impl Future<Output = Result<ReplyData>> + Send {
        not_implemented(call, op)
    }

    /// Write; the reply is the number of bytes written.
    fn write(&self, call: Call, op: op::Write) -> impl Future<Output = Result<u32>> + Send {
        not_implemented(call, op)
    }

    /// A program closes one descriptor of an open file.
    fn flush(&self, call: Call, op: op::Flush) -> impl Future<Output = Result<()>> + Send {
        not_implemented(call, op)
    }

    /// The last descriptor and mapping of an open file is gone.
    fn release(&self, call: Call, op: op::Release) -> impl Future<Output = Result<()>> + Send {
        not_implemented(call, op)
    }

    /// Make the file's written data durable.
    fn fsync(&self, call: Call, op: op::Fsync) -> impl Future<Output = Result<()>> + Send {
        not_implemented(call, op)
    }

    /// Open the directory `call.node`.
    fn opendir(&self, call: Call, op: op::Open) -> impl Future<Output = Result<OpenReply>> + Send {
        not_implemented(call, op)
    }

    /// List the names of an open directory.
    fn readdir(&self, call: Call, op: op::Readdir) -> impl Future<Output = Result<Dirents>> + Send {
        not_implemented(call, op)
    }

    /// List names with attributes.
    fn readdirplus(
        &self,
        call: Call,
        op: op::Readdir,
    ) -> impl Future<Output = Result<DirentsPlus>> + Send {
        not_implemented(call, op)
    }

    /// Close an open directory.
    fn releasedir(&self, call: Call, op: op::Release) -> impl Future<Output = Result<()>> + Send {
        not_implemented(call, op)
    }

    /// Make the changes in a directory durable.
    fn fsyncdir(&self, call: Call, op: op::Fsync) -> impl Future<Output = Result<()>> + Send {
        not_implemented(call, op)
    }

    /// Space and inode counts of the file system.
    fn statfs(&self, call: Call, op: ()) -> impl Future<Output = Result<StatfsReply>> + Send {
        not_implemented(call, op)
    }

    /// Make all changes in the file system durable.
    fn syncfs(&self, call: Call, op: ()) -> impl Future<Output = Result<()>> + Send {
        not_implemented(call, op)
    }

    fn setxattr(&self, call: Call, op: op::Setxattr) -> impl Future<Output = Result<()>> + Send {
        not_implemented(call, op)
    }

    fn getxattr(
        &self,
        call: Call,
        op: op::Getxattr,
    ) -> impl Future<Output = Result<XattrReply>> + Send {
        not_implemented(call, op)
    }

    fn listxattr(
        &self,
        call: Call,
        op: op::Listxattr,
    ) -> impl Future<Output = Result<XattrReply>> + Send {
        not_implemented(call, op)
    }

    fn removexattr(
        &self,
        call: Call,
        op: op::Removexattr,
    ) -> impl Future<Output = Result<()>> + Send {
        not_implemented(call, op)
    }

    /// The first lock that conflicts with this one; `LockKind::Unlock` if none does.
    fn getlk(&self, call: Call, op: op::Lock) -> impl Future<Output = Result<FileLock>> + Send {
        not_implemented(call, op)
    }

    /// Lock or unlock at once, or reply EAGAIN.
    fn setlk(&self, call: Call, op: op::Lock) -> impl Future<Output = Result<()>> + Send {
        not_implemented(call, op)
    }

    /// Lock, and wait for it; on `call.interrupted()` reply EINTR. Also unlocks: flock(2) without LOCK_NB sends an unlock this
    /// way.
    fn setlkw(&self, call: Call, op: op::Lock) -> impl Future<Output = Result<()>> + Send {
        not_implemented(call, op)
    }

    /// Permission check for access(2); the kernel sends it only without default_permissions.
    fn access(&self, call: Call, op: op::Access) -> impl Future<Output = Result<()>> + Send {
        not_implemented(call, op)
    }

    fn fallocate(&self, call: Call, op: op::Fallocate) -> impl Future<Output = Result<()>> + Send {
        not_implemented(call, op)
    }

    /// Offset of the next hole or the next data.
    fn lseek(&self, call: Call, op: op::Lseek) -> impl Future<Output = Result<u64>> + Send {
        not_implemented(call, op)
    }

    /// Copy between files; the reply is the number of bytes copied.
    fn copy_file_range(
        &self,
        call: Call,
        op: op::CopyFileRange,
    ) -> impl Future<Output = Result<u64>> + Send {
        not_implemented(call, op)
    }

    fn bmap(&self, call: Call, op: op::Bmap) -> impl Future<Output = Result<u64>> + Send {
        not_implemented(call, op)
    }

    fn ioctl(&self, call: Call, op: op::Ioctl) -> impl Future<Output = Result<IoctlReply>> + Send {
        not_implemented(call, op)
    }

    /// Which of the requested POLL… events are ready.
    fn poll(&self, call: Call, op: op::Poll) -> impl Future<Output = Result<u32>> + Send {
        not_implemented(call, op)
    }
}

/// The reply of a method that a file system does not implement.
fn not_implemented<Op, Reply>(_: Call, _: Op) -> Ready<Result<Reply>> {
    ready(Err(Errno::ENOSYS))
}
