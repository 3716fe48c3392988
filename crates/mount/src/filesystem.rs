//! The FUSE file system: each request of the kernel is counted and passed to its function in `ops/`, and its error becomes an
//! errno.

use crate::cache_lifetimes::CacheLifetimes;
use crate::errno::{errno, is_failure};
use crate::metrics::OpMetrics;
use crate::setid_inodes::SetidInodes;
use crate::{convert, ops};
use gupfs_client::Client;
use gupfs_fuse::{
    AttrReply, Call, CreateReply, Dirents, DirentsPlus, EntryReply, FileSystem, IoctlReply,
    MountInfo, Notifier, NotifyError, OpenReply, ReplyData, Result, StatfsReply, StatxReply,
    XattrReply, op, op::FileLock,
};
use gupfs_platform::Clock;
use gupfs_proto::{Attr, FsError, InodeId};
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The file system that the fuse crate serves.
pub struct GupfsFileSystem {
    pub client: Arc<Client>,
    pub clock: Clock,
    pub lifetimes: CacheLifetimes,
    pub page_cache: bool,
    /// Requests that change anything are refused, whatever flags the kernel has for the mount (`mount -o remount,rw`).
    pub read_only: bool,
    pub setid_inodes: SetidInodes,
    /// Set once it is mounted.
    pub notifier: OnceLock<Notifier>,
    pub kernel_permissions: bool,
    /// The kernel sends lock requests.
    pub cluster_locks: bool,
    pub metrics: Arc<OpMetrics>,
}

impl GupfsFileSystem {
    /// How long the kernel may cache attributes that a reply carries.
    pub fn attributes_lifetime(&self, attr: &Attr) -> Duration {
        self.setid_inodes.attr_lifetime(attr, || self.clock.boot())
    }

    /// An unprivileged process has changed the file's data, so setuid and setgid are cleared: invalidates the kernel's attributes
    /// before the process gets its reply.
    pub fn privileges_killed(&self, ino: InodeId) {
        if self.setid_inodes.remove(ino) {
            self.invalidate_attributes(ino);
        }
    }

    /// Invalidates the kernel's attributes of an inode after a request that the kernel does not know to change them.
    pub fn invalidate_attributes(&self, ino: InodeId) {
        let Some(notifier) = self.notifier.get() else {
            return;
        };
        match notifier.inval_attributes(convert::node(ino)) {
            // The kernel has forgotten the inode meanwhile.
            Ok(()) | Err(NotifyError::Unknown) => {}
            Err(error) => {
                tracing::warn!(inode = format_args!("{:x}", ino.0), %error, "could not invalidate an inode's attributes in the kernel; programs may see old ones for some seconds");
            }
        }
    }

    /// # Errors
    /// `ReadOnly` on a read-only mount.
    pub fn check_writable(&self) -> std::result::Result<(), FsError> {
        match self.read_only {
            true => Err(FsError::ReadOnly),
            false => Ok(()),
        }
    }

    async fn run<T>(
        &self,
        index: usize,
        node: u64,
        work: impl Future<Output = std::result::Result<T, FsError>>,
    ) -> Result<T> {
        let start = self.clock.boot();
        self.metrics.begin();
        let result = work.await;
        self.metrics
            .end(index, self.clock.boot().since(start), result.is_err());
        result.map_err(|error| {
            if is_failure(&error) {
                tracing::error!(operation = crate::metrics::OP_NAMES[index], inode = format_args!("{node:x}"), %error, "a program's call fails");
            }
            errno(&error)
        })
    }
}

macro_rules! requests {
    (@allowed $fs:ident changes) => { $fs.check_writable() };
    (@allowed $fs:ident) => { Ok(()) };
    ($($index:literal $method:ident($op:ty) -> $answer:ty = $function:path $(, $changes:ident)?;)*) => {
        impl FileSystem for GupfsFileSystem {
            fn mounted(&self, mounted: &MountInfo) {
                let _ = self.notifier.set(mounted.notifier.clone());
            }

            async fn forget(&self, batch: Vec<op::Forget>) {
                let forgets = batch.iter().map(|forget| (convert::inode(forget.node), forget.lookups));
                self.client.forget(forgets);
            }

            $(
                async fn $method(&self, call: Call, op: $op) -> Result<$answer> {
                    let node = call.node.0;
                    let work = async {
                        requests!(@allowed self $($changes)?)?;
                        $function(self, call, op).await
                    };
                    self.run($index, node, work).await
                }
            )*
        }

        #[cfg(test)]
        const INDICES: &[(usize, &str)] = &[$(($index, stringify!($method))),*];
    };
}

requests! {
    0 lookup(op::Lookup) -> EntryReply = ops::names::lookup;
    1 getattr(op::Getattr) -> AttrReply = ops::attrs::getattr;
    2 statx(op::Statx) -> StatxReply = ops::attrs::statx;
    3 setattr(op::Setattr) -> AttrReply = ops::attrs::setattr, changes;
    4 readlink(()) -> Vec<u8> = ops::names::readlink;
    5 symlink(op::Symlink) -> EntryReply = ops::names::symlink, changes;
    6 mknod(op::Mknod) -> EntryReply = ops::names::mknod, changes;
    7 mkdir(op::Mkdir) -> EntryReply = ops::names::mkdir, changes;
    8 unlink(op::Unlink) -> () = ops::names::unlink, changes;
    9 rmdir(op::Rmdir) -> () = ops::names::rmdir, changes;
    10 rename(op::Rename) -> () = ops::names::rename, changes;
    11 link(op::Link) -> EntryReply = ops::names::link, changes;
    12 open(op::Open) -> OpenReply = ops::open::open;
    13 create(op::Create) -> CreateReply = ops::open::create, changes;
    14 tmpfile(op::Tmpfile) -> CreateReply = ops::open::tmpfile, changes;
    15 read(op::Read) -> ReplyData = ops::data::read;
    16 write(op::Write) -> u32 = ops::data::write, changes;
    17 flush(op::Flush) -> () = ops::open::flush;
    18 release(op::Release) -> () = ops::open::release;
    19 fsync(op::Fsync) -> () = ops::data::fsync;
    20 opendir(op::Open) -> OpenReply = ops::dirs::opendir;
    21 readdir(op::Readdir) -> Dirents = ops::dirs::readdir;
    22 readdirplus(op::Readdir) -> DirentsPlus = ops::dirs::readdirplus;
    23 releasedir(op::Release) -> () = ops::dirs::releasedir;
    24 fsyncdir(op::Fsync) -> () = ops::dirs::fsyncdir;
    25 statfs(()) -> StatfsReply = ops::space::statfs;
    26 syncfs(()) -> () = ops::space::syncfs;
    27 setxattr(op::Setxattr) -> () = ops::xattrs::setxattr, changes;
    28 getxattr(op::Getxattr) -> XattrReply = ops::xattrs::getxattr;
    29 listxattr(op::Listxattr) -> XattrReply = ops::xattrs::listxattr;
    30 removexattr(op::Removexattr) -> () = ops::xattrs::removexattr, changes;
    31 fallocate(op::Fallocate) -> () = ops::space::fallocate, changes;
    32 lseek(op::Lseek) -> u64 = ops::space::lseek;
    33 copy_file_range(op::CopyFileRange) -> u64 = ops::space::copy_file_range, changes;
    34 access(op::Access) -> () = ops::attrs::access;
    35 getlk(op::Lock) -> FileLock = ops::locks::getlk;
    36 setlk(op::Lock) -> () = ops::locks::setlk;
    37 setlkw(op::Lock) -> () = ops::locks::setlkw;
    38 ioctl(op::Ioctl) -> IoctlReply = ops::flags::ioctl;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_counted_under_its_name() {
        let named: Vec<&str> = INDICES
            .iter()
            .map(|(index, _)| crate::metrics::OP_NAMES[*index])
            .collect();
        let methods: Vec<&str> = INDICES.iter().map(|(_, method)| *method).collect();
        assert_eq!(named, methods);
        assert_eq!(INDICES.len(), crate::metrics::OP_NAMES.len());
    }
}
