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

impl GupfsFileSystem {
    /// Executes a request: counts it with its duration, refuses a change on a read-only mount, logs a failure of a server, and
    /// maps the error to an errno.
    async fn run<T>(
        &self,
        op: FuseOp,
        node: NodeId,
        work: impl Future<Output = std::result::Result<T, FsError>>,
    ) -> Result<T> {
        let start = self.clock.boot();
        self.metrics.begin();
        let result = match op.changes() && self.read_only {
            true => Err(FsError::ReadOnly),
            false => work.await,
        };
        self.metrics
            .end(op, self.clock.boot().since(start), result.is_err());
        result.map_err(|error| {
            if is_failure(&error) {
                tracing::error!(operation = op.name(), inode = format_args!("{:x}", node.0), %error, "a program's call fails");
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
        let (node, work) = (call.node, ops::names::lookup(self, call, op));
        self.run(FuseOp::Lookup, node, work).await
    }

    async fn getattr(&self, call: Call, op: op::Getattr) -> Result<AttrReply> {
        let (node, work) = (call.node, ops::attrs::getattr(self, call, op));
        self.run(FuseOp::Getattr, node, work).await
    }

    async fn statx(&self, call: Call, op: op::Statx) -> Result<StatxReply> {
        let (node, work) = (call.node, ops::attrs::statx(self, call, op));
        self.run(FuseOp::Statx, node, work).await
    }

    async fn setattr(&self, call: Call, op: op::Setattr) -> Result<AttrReply> {
        let (node, work) = (call.node, ops::attrs::setattr(self, call, op));
        self.run(FuseOp::Setattr, node, work).await
    }

    async fn readlink(&self, call: Call, op: ()) -> Result<Vec<u8>> {
        let (node, work) = (call.node, ops::names::readlink(self, call, op));
        self.run(FuseOp::Readlink, node, work).await
    }

    async fn symlink(&self, call: Call, op: op::Symlink) -> Result<EntryReply> {
        let (node, work) = (call.node, ops::names::symlink(self, call, op));
        self.run(FuseOp::Symlink, node, work).await
    }

    async fn mknod(&self, call: Call, op: op::Mknod) -> Result<EntryReply> {
        let (node, work) = (call.node, ops::names::mknod(self, call, op));
        self.run(FuseOp::Mknod, node, work).await
    }

    async fn mkdir(&self, call: Call, op: op::Mkdir) -> Result<EntryReply> {
        let (node, work) = (call.node, ops::names::mkdir(self, call, op));
        self.run(FuseOp::Mkdir, node, work).await
    }

    async fn unlink(&self, call: Call, op: op::Unlink) -> Result<()> {
        let (node, work) = (call.node, ops::names::unlink(self, call, op));
        self.run(FuseOp::Unlink, node, work).await
    }

    async fn rmdir(&self, call: Call, op: op::Rmdir) -> Result<()> {
        let (node, work) = (call.node, ops::names::rmdir(self, call, op));
        self.run(FuseOp::Rmdir, node, work).await
    }

    async fn rename(&self, call: Call, op: op::Rename) -> Result<()> {
        let (node, work) = (call.node, ops::names::rename(self, call, op));
        self.run(FuseOp::Rename, node, work).await
    }

    async fn link(&self, call: Call, op: op::Link) -> Result<EntryReply> {
        let (node, work) = (call.node, ops::names::link(self, call, op));
        self.run(FuseOp::Link, node, work).await
    }

    async fn open(&self, call: Call, op: op::Open) -> Result<OpenReply> {
        let (node, work) = (call.node, ops::open::open(self, call, op));
        self.run(FuseOp::Open, node, work).await
    }

    async fn create(&self, call: Call, op: op::Create) -> Result<CreateReply> {
        let (node, work) = (call.node, ops::open::create(self, call, op));
        self.run(FuseOp::Create, node, work).await
    }

    async fn tmpfile(&self, call: Call, op: op::Tmpfile) -> Result<CreateReply> {
        let (node, work) = (call.node, ops::open::tmpfile(self, call, op));
        self.run(FuseOp::Tmpfile, node, work).await
    }

    async fn read(&self, call: Call, op: op::Read) -> Result<ReplyData> {
        let (node, work) = (call.node, ops::data::read(self, call, op));
        self.run(FuseOp::Read, node, work).await
    }

    async fn write(&self, call: Call, op: op::Write) -> Result<u32> {
        let (node, work) = (call.node, ops::data::write(self, call, op));
        self.run(FuseOp::Write, node, work).await
    }

    async fn flush(&self, call: Call, op: op::Flush) -> Result<()> {
        let (node, work) = (call.node, ops::open::flush(self, call, op));
        self.run(FuseOp::Flush, node, work).await
    }

    async fn release(&self, call: Call, op: op::Release) -> Result<()> {
        let (node, work) = (call.node, ops::open::release(self, call, op));
        self.run(FuseOp::Release, node, work).await
    }

    async fn fsync(&self, call: Call, op: op::Fsync) -> Result<()> {
        let (node, work) = (call.node, ops::data::fsync(self, call, op));
        self.run(FuseOp::Fsync, node, work).await
    }

    async fn opendir(&self, call: Call, op: op::Open) -> Result<OpenReply> {
        let (node, work) = (call.node, ops::dirs::opendir(self, call, op));
        self.run(FuseOp::Opendir, node, work).await
    }

    async fn readdir(&self, call: Call, op: op::Readdir) -> Result<Dirents> {
        let (node, work) = (call.node, ops::dirs::readdir(self, call, op));
        self.run(FuseOp::Readdir, node, work).await
    }

    async fn readdirplus(&self, call: Call, op: op::Readdir) -> Result<DirentsPlus> {
        let (node, work) = (call.node, ops::dirs::readdirplus(self, call, op));
        self.run(FuseOp::Readdirplus, node, work).await
    }

    async fn releasedir(&self, call: Call, op: op::Release) -> Result<()> {
        let (node, work) = (call.node, ops::dirs::releasedir(self, call, op));
        self.run(FuseOp::Releasedir, node, work).await
    }

    async fn fsyncdir(&self, call: Call, op: op::Fsync) -> Result<()> {
        let (node, work) = (call.node, ops::dirs::fsyncdir(self, call, op));
        self.run(FuseOp::Fsyncdir, node, work).await
    }

    async fn statfs(&self, call: Call, op: ()) -> Result<StatfsReply> {
        let (node, work) = (call.node, ops::space::statfs(self, call, op));
        self.run(FuseOp::Statfs, node, work).await
    }

    async fn syncfs(&self, call: Call, op: ()) -> Result<()> {
        let (node, work) = (call.node, ops::space::syncfs(self, call, op));
        self.run(FuseOp::Syncfs, node, work).await
    }

    async fn setxattr(&self, call: Call, op: op::Setxattr) -> Result<()> {
        let (node, work) = (call.node, ops::xattrs::setxattr(self, call, op));
        self.run(FuseOp::Setxattr, node, work).await
    }

    async fn getxattr(&self, call: Call, op: op::Getxattr) -> Result<XattrReply> {
        let (node, work) = (call.node, ops::xattrs::getxattr(self, call, op));
        self.run(FuseOp::Getxattr, node, work).await
    }

    async fn listxattr(&self, call: Call, op: op::Listxattr) -> Result<XattrReply> {
        let (node, work) = (call.node, ops::xattrs::listxattr(self, call, op));
        self.run(FuseOp::Listxattr, node, work).await
    }

    async fn removexattr(&self, call: Call, op: op::Removexattr) -> Result<()> {
        let (node, work) = (call.node, ops::xattrs::removexattr(self, call, op));
        self.run(FuseOp::Removexattr, node, work).await
    }

    async fn fallocate(&self, call: Call, op: op::Fallocate) -> Result<()> {
        let (node, work) = (call.node, ops::space::fallocate(self, call, op));
        self.run(FuseOp::Fallocate, node, work).await
    }

    async fn lseek(&self, call: Call, op: op::Lseek) -> Result<u64> {
        let (node, work) = (call.node, ops::space::lseek(self, call, op));
        self.run(FuseOp::Lseek, node, work).await
    }

    async fn copy_file_range(&self, call: Call, op: op::CopyFileRange) -> Result<u64> {
        let (node, work) = (call.node, ops::space::copy_file_range(self, call, op));
        self.run(FuseOp::CopyFileRange, node, work).await
    }

    async fn access(&self, call: Call, op: op::Access) -> Result<()> {
        let (node, work) = (call.node, ops::attrs::access(self, call, op));
        self.run(FuseOp::Access, node, work).await
    }

    async fn getlk(&self, call: Call, op: op::Lock) -> Result<FileLock> {
        let (node, work) = (call.node, ops::locks::getlk(self, call, op));
        self.run(FuseOp::Getlk, node, work).await
    }

    async fn setlk(&self, call: Call, op: op::Lock) -> Result<()> {
        let (node, work) = (call.node, ops::locks::setlk(self, call, op));
        self.run(FuseOp::Setlk, node, work).await
    }

    async fn setlkw(&self, call: Call, op: op::Lock) -> Result<()> {
        let (node, work) = (call.node, ops::locks::setlkw(self, call, op));
        self.run(FuseOp::Setlkw, node, work).await
    }

    async fn ioctl(&self, call: Call, op: op::Ioctl) -> Result<IoctlReply> {
        let (node, work) = (call.node, ops::flags::ioctl(self, call, op));
        self.run(FuseOp::Ioctl, node, work).await
    }
}
