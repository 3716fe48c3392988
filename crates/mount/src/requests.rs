//! The methods that the FUSE worker calls: each counts its request and passes it to its function in `ops/`.

use crate::errno::{errno, is_failure};
use crate::filesystem::GupfsFileSystem;
use crate::fuse_op::FuseOp;
use crate::{convert, ops};
use gupfs_fuse::{
    AttrReply, Call, CreateReply, Dirents, DirentsPlus, EntryReply, FileSystem, IoctlReply,
    MountInfo, NodeId, OpenReply, ReplyData, Result, StatfsReply, StatxReply, XattrReply, op,
    op::FileLock,
};
use gupfs_proto::FsError;
use std::future::Future;
use std::sync::Arc;

/// Where a request comes from.
#[derive(Clone, Copy)]
struct CallOrigin {
    node: NodeId,
    pid: u32,
    uid: u32,
}

impl CallOrigin {
    fn of(call: &Call) -> CallOrigin {
        CallOrigin {
            node: call.node,
            pid: call.pid,
            uid: call.uid,
        }
    }
}

impl GupfsFileSystem {
    /// Executes a request: counts it with its duration, refuses a change on a read-only mount, logs a failure of a server, and
    /// maps the error to an errno.
    async fn run<T>(
        &self,
        op: FuseOp,
        from: CallOrigin,
        work: impl Future<Output = std::result::Result<T, FsError>>,
    ) -> Result<T> {
        let start = self.clock.boot();
        self.metrics.begin();
        let result = match op.changes() && self.read_only {
            true => Err(FsError::ReadOnly),
            false => self.current_call(op, from.pid, from.uid).scope(work).await,
        };
        self.metrics
            .end(op, self.clock.boot().since(start), result.is_err());
        result.map_err(|error| {
            if is_failure(&error) {
                tracing::error!(operation = op.name(), inode = format_args!("{:x}", from.node.0), %error, "a program's call fails");
            }
            errno(&error)
        })
    }
}

impl FileSystem for GupfsFileSystem {
    fn mounted(&self, mounted: &MountInfo) {
        self.set_kernel_caches(Arc::new(mounted.notifier.clone()));
    }

    async fn forget(&self, batch: Vec<op::Forget>) {
        let forgets = batch
            .iter()
            .map(|forget| (convert::inode(forget.node), forget.lookups));
        self.client.forget(forgets);
    }

    async fn lookup(&self, call: Call, op: op::Lookup) -> Result<EntryReply> {
        let (from, work) = (CallOrigin::of(&call), ops::names::lookup(self, call, op));
        self.run(FuseOp::Lookup, from, work).await
    }

    async fn getattr(&self, call: Call, op: op::Getattr) -> Result<AttrReply> {
        let (from, work) = (CallOrigin::of(&call), ops::attrs::getattr(self, call, op));
        self.run(FuseOp::Getattr, from, work).await
    }

    async fn statx(&self, call: Call, op: op::Statx) -> Result<StatxReply> {
        let (from, work) = (CallOrigin::of(&call), ops::attrs::statx(self, call, op));
        self.run(FuseOp::Statx, from, work).await
    }

    async fn setattr(&self, call: Call, op: op::Setattr) -> Result<AttrReply> {
        let (from, work) = (CallOrigin::of(&call), ops::attrs::setattr(self, call, op));
        self.run(FuseOp::Setattr, from, work).await
    }

    async fn readlink(&self, call: Call, op: ()) -> Result<Vec<u8>> {
        let (from, work) = (CallOrigin::of(&call), ops::names::readlink(self, call, op));
        self.run(FuseOp::Readlink, from, work).await
    }

    async fn symlink(&self, call: Call, op: op::Symlink) -> Result<EntryReply> {
        let (from, work) = (CallOrigin::of(&call), ops::names::symlink(self, call, op));
        self.run(FuseOp::Symlink, from, work).await
    }

    async fn mknod(&self, call: Call, op: op::Mknod) -> Result<EntryReply> {
        let (from, work) = (CallOrigin::of(&call), ops::names::mknod(self, call, op));
        self.run(FuseOp::Mknod, from, work).await
    }

    async fn mkdir(&self, call: Call, op: op::Mkdir) -> Result<EntryReply> {
        let (from, work) = (CallOrigin::of(&call), ops::names::mkdir(self, call, op));
        self.run(FuseOp::Mkdir, from, work).await
    }

    async fn unlink(&self, call: Call, op: op::Unlink) -> Result<()> {
        let (from, work) = (CallOrigin::of(&call), ops::names::unlink(self, call, op));
        self.run(FuseOp::Unlink, from, work).await
    }

    async fn rmdir(&self, call: Call, op: op::Rmdir) -> Result<()> {
        let (from, work) = (CallOrigin::of(&call), ops::names::rmdir(self, call, op));
        self.run(FuseOp::Rmdir, from, work).await
    }

    async fn rename(&self, call: Call, op: op::Rename) -> Result<()> {
        let (from, work) = (CallOrigin::of(&call), ops::names::rename(self, call, op));
        self.run(FuseOp::Rename, from, work).await
    }

    async fn link(&self, call: Call, op: op::Link) -> Result<EntryReply> {
        let (from, work) = (CallOrigin::of(&call), ops::names::link(self, call, op));
        self.run(FuseOp::Link, from, work).await
    }

    async fn open(&self, call: Call, op: op::Open) -> Result<OpenReply> {
        let (from, work) = (CallOrigin::of(&call), ops::open::open(self, call, op));
        self.run(FuseOp::Open, from, work).await
    }

    async fn create(&self, call: Call, op: op::Create) -> Result<CreateReply> {
        let (from, work) = (CallOrigin::of(&call), ops::open::create(self, call, op));
        self.run(FuseOp::Create, from, work).await
    }

    async fn tmpfile(&self, call: Call, op: op::Tmpfile) -> Result<CreateReply> {
        let (from, work) = (CallOrigin::of(&call), ops::open::tmpfile(self, call, op));
        self.run(FuseOp::Tmpfile, from, work).await
    }

    async fn read(&self, call: Call, op: op::Read) -> Result<ReplyData> {
        let (from, work) = (CallOrigin::of(&call), ops::data::read(self, call, op));
        self.run(FuseOp::Read, from, work).await
    }

    async fn write(&self, call: Call, op: op::Write) -> Result<u32> {
        let (from, work) = (CallOrigin::of(&call), ops::data::write(self, call, op));
        self.run(FuseOp::Write, from, work).await
    }

    async fn flush(&self, call: Call, op: op::Flush) -> Result<()> {
        let (from, work) = (CallOrigin::of(&call), ops::open::flush(self, call, op));
        self.run(FuseOp::Flush, from, work).await
    }

    async fn release(&self, call: Call, op: op::Release) -> Result<()> {
        let (from, work) = (CallOrigin::of(&call), ops::open::release(self, call, op));
        self.run(FuseOp::Release, from, work).await
    }

    async fn fsync(&self, call: Call, op: op::Fsync) -> Result<()> {
        let (from, work) = (CallOrigin::of(&call), ops::data::fsync(self, call, op));
        self.run(FuseOp::Fsync, from, work).await
    }

    async fn opendir(&self, call: Call, op: op::Open) -> Result<OpenReply> {
        let (from, work) = (CallOrigin::of(&call), ops::dirs::opendir(self, call, op));
        self.run(FuseOp::Opendir, from, work).await
    }

    async fn readdir(&self, call: Call, op: op::Readdir) -> Result<Dirents> {
        let (from, work) = (CallOrigin::of(&call), ops::dirs::readdir(self, call, op));
        self.run(FuseOp::Readdir, from, work).await
    }

    async fn readdirplus(&self, call: Call, op: op::Readdir) -> Result<DirentsPlus> {
        let (from, work) = (
            CallOrigin::of(&call),
            ops::dirs::readdirplus(self, call, op),
        );
        self.run(FuseOp::Readdirplus, from, work).await
    }

    async fn releasedir(&self, call: Call, op: op::Release) -> Result<()> {
        let (from, work) = (CallOrigin::of(&call), ops::dirs::releasedir(self, call, op));
        self.run(FuseOp::Releasedir, from, work).await
    }

    async fn fsyncdir(&self, call: Call, op: op::Fsync) -> Result<()> {
        let (from, work) = (CallOrigin::of(&call), ops::dirs::fsyncdir(self, call, op));
        self.run(FuseOp::Fsyncdir, from, work).await
    }

    async fn statfs(&self, call: Call, op: ()) -> Result<StatfsReply> {
        let (from, work) = (CallOrigin::of(&call), ops::space::statfs(self, call, op));
        self.run(FuseOp::Statfs, from, work).await
    }

    async fn syncfs(&self, call: Call, op: ()) -> Result<()> {
        let (from, work) = (CallOrigin::of(&call), ops::space::syncfs(self, call, op));
        self.run(FuseOp::Syncfs, from, work).await
    }

    async fn setxattr(&self, call: Call, op: op::Setxattr) -> Result<()> {
        let (from, work) = (CallOrigin::of(&call), ops::xattrs::setxattr(self, call, op));
        self.run(FuseOp::Setxattr, from, work).await
    }

    async fn getxattr(&self, call: Call, op: op::Getxattr) -> Result<XattrReply> {
        let (from, work) = (CallOrigin::of(&call), ops::xattrs::getxattr(self, call, op));
        self.run(FuseOp::Getxattr, from, work).await
    }

    async fn listxattr(&self, call: Call, op: op::Listxattr) -> Result<XattrReply> {
        let (from, work) = (
            CallOrigin::of(&call),
            ops::xattrs::listxattr(self, call, op),
        );
        self.run(FuseOp::Listxattr, from, work).await
    }

    async fn removexattr(&self, call: Call, op: op::Removexattr) -> Result<()> {
        let (from, work) = (
            CallOrigin::of(&call),
            ops::xattrs::removexattr(self, call, op),
        );
        self.run(FuseOp::Removexattr, from, work).await
    }

    async fn fallocate(&self, call: Call, op: op::Fallocate) -> Result<()> {
        let (from, work) = (CallOrigin::of(&call), ops::space::fallocate(self, call, op));
        self.run(FuseOp::Fallocate, from, work).await
    }

    async fn lseek(&self, call: Call, op: op::Lseek) -> Result<u64> {
        let (from, work) = (CallOrigin::of(&call), ops::space::lseek(self, call, op));
        self.run(FuseOp::Lseek, from, work).await
    }

    async fn copy_file_range(&self, call: Call, op: op::CopyFileRange) -> Result<u64> {
        let (from, work) = (
            CallOrigin::of(&call),
            ops::space::copy_file_range(self, call, op),
        );
        self.run(FuseOp::CopyFileRange, from, work).await
    }

    async fn access(&self, call: Call, op: op::Access) -> Result<()> {
        let (from, work) = (CallOrigin::of(&call), ops::attrs::access(self, call, op));
        self.run(FuseOp::Access, from, work).await
    }

    async fn getlk(&self, call: Call, op: op::Lock) -> Result<FileLock> {
        let (from, work) = (CallOrigin::of(&call), ops::locks::getlk(self, call, op));
        self.run(FuseOp::Getlk, from, work).await
    }

    async fn setlk(&self, call: Call, op: op::Lock) -> Result<()> {
        let (from, work) = (CallOrigin::of(&call), ops::locks::setlk(self, call, op));
        self.run(FuseOp::Setlk, from, work).await
    }

    async fn setlkw(&self, call: Call, op: op::Lock) -> Result<()> {
        let (from, work) = (CallOrigin::of(&call), ops::locks::setlkw(self, call, op));
        self.run(FuseOp::Setlkw, from, work).await
    }

    async fn ioctl(&self, call: Call, op: op::Ioctl) -> Result<IoctlReply> {
        let (from, work) = (CallOrigin::of(&call), ops::flags::ioctl(self, call, op));
        self.run(FuseOp::Ioctl, from, work).await
    }
}
