//! Every request of the kernel: counted, sent to its function in `ops/`, refusals turned into errno.

use crate::errno::{errno, is_failure};
use crate::lifetimes::Lifetimes;
use crate::meter::Meter;
use crate::{convert, ops};
use gupfs_client::Client;
use gupfs_door::{
    Attributes, Call, Created, Data, Dirents, DirentsPlus, Entry, FileSystem, Opened, Result,
    Statfs, Statxed, Xattr, op, op::FileLock,
};
use gupfs_proto::Refusal;
use gupfs_world::Clock;
use std::future::Future;
use std::sync::Arc;

/// What the door serves.
pub struct Kernel {
    pub client: Arc<Client>,
    pub clock: Clock,
    pub lifetimes: Lifetimes,
    pub page_cache: bool,
    pub kernel_permissions: bool,
    /// The kernel asks us for locks.
    pub locks: bool,
    pub meter: Arc<Meter>,
}

impl Kernel {
    async fn answer<T>(
        &self,
        index: usize,
        node: u64,
        work: impl Future<Output = std::result::Result<T, Refusal>>,
    ) -> Result<T> {
        let start = self.clock.boot();
        self.meter.begin();
        let result = work.await;
        self.meter
            .end(index, self.clock.boot().since(start), result.is_err());
        result.map_err(|refusal| {
            if is_failure(&refusal) {
                tracing::error!(operation = crate::meter::NAMES[index], inode = format_args!("{node:x}"), %refusal, "a program gets an error");
            }
            errno(&refusal)
        })
    }
}

macro_rules! requests {
    ($($index:literal $method:ident($op:ty) -> $answer:ty = $function:path;)*) => {
        impl FileSystem for Kernel {
            async fn forget(&self, batch: Vec<op::Forget>) {
                let forgets = batch.iter().map(|forget| (convert::inode(forget.node), forget.lookups));
                self.client.forget(forgets);
            }

            $(
                async fn $method(&self, call: Call, op: $op) -> Result<$answer> {
                    let node = call.node.0;
                    self.answer($index, node, $function(self, call, op)).await
                }
            )*
        }

        #[cfg(test)]
        const INDICES: &[(usize, &str)] = &[$(($index, stringify!($method))),*];
    };
}

requests! {
    0 lookup(op::Lookup) -> Entry = ops::names::lookup;
    1 getattr(op::Getattr) -> Attributes = ops::attrs::getattr;
    2 statx(op::Statx) -> Statxed = ops::attrs::statx;
    3 setattr(op::Setattr) -> Attributes = ops::attrs::setattr;
    4 readlink(()) -> Vec<u8> = ops::names::readlink;
    5 symlink(op::Symlink) -> Entry = ops::names::symlink;
    6 mknod(op::Mknod) -> Entry = ops::names::mknod;
    7 mkdir(op::Mkdir) -> Entry = ops::names::mkdir;
    8 unlink(op::Unlink) -> () = ops::names::unlink;
    9 rmdir(op::Rmdir) -> () = ops::names::rmdir;
    10 rename(op::Rename) -> () = ops::names::rename;
    11 link(op::Link) -> Entry = ops::names::link;
    12 open(op::Open) -> Opened = ops::open::open;
    13 create(op::Create) -> Created = ops::open::create;
    14 tmpfile(op::Tmpfile) -> Created = ops::open::tmpfile;
    15 read(op::Read) -> Data = ops::data::read;
    16 write(op::Write) -> u32 = ops::data::write;
    17 flush(op::Flush) -> () = ops::open::flush;
    18 release(op::Release) -> () = ops::open::release;
    19 fsync(op::Fsync) -> () = ops::data::fsync;
    20 opendir(op::Open) -> Opened = ops::dirs::opendir;
    21 readdir(op::Readdir) -> Dirents = ops::dirs::readdir;
    22 readdirplus(op::Readdir) -> DirentsPlus = ops::dirs::readdirplus;
    23 releasedir(op::Release) -> () = ops::dirs::releasedir;
    24 fsyncdir(op::Fsync) -> () = ops::dirs::fsyncdir;
    25 statfs(()) -> Statfs = ops::space::statfs;
    26 syncfs(()) -> () = ops::space::syncfs;
    27 setxattr(op::Setxattr) -> () = ops::xattrs::setxattr;
    28 getxattr(op::Getxattr) -> Xattr = ops::xattrs::getxattr;
    29 listxattr(op::Listxattr) -> Xattr = ops::xattrs::listxattr;
    30 removexattr(op::Removexattr) -> () = ops::xattrs::removexattr;
    31 fallocate(op::Fallocate) -> () = ops::space::fallocate;
    32 lseek(op::Lseek) -> u64 = ops::space::lseek;
    33 copy_file_range(op::CopyFileRange) -> u64 = ops::space::copy_file_range;
    34 access(op::Access) -> () = ops::attrs::access;
    35 getlk(op::Lock) -> FileLock = ops::locks::getlk;
    36 setlk(op::Lock) -> () = ops::locks::setlk;
    37 setlkw(op::Lock) -> () = ops::locks::setlkw;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_counted_under_its_name() {
        let named: Vec<&str> = INDICES
            .iter()
            .map(|(index, _)| crate::meter::NAMES[*index])
            .collect();
        let methods: Vec<&str> = INDICES.iter().map(|(_, method)| *method).collect();
        assert_eq!(named, methods);
        assert_eq!(INDICES.len(), crate::meter::NAMES.len());
    }
}
