//! Every request of the kernel: counted, sent to its function in `ops/`, refusals turned into errno.

use crate::errno::{errno, is_failure};
use crate::lifetimes::Lifetimes;
use crate::meter::Meter;
use crate::privileged::Privileged;
use crate::{convert, ops};
use gupfs_client::Client;
use gupfs_fuse::{
    Attributes, Call, Created, Data, Dirents, DirentsPlus, Entry, FileSystem, Ioctled, Mounted,
    Notifier, NotifyError, Opened, Result, Statfs, Statxed, Xattr, op, op::FileLock,
};
use gupfs_platform::Clock;
use gupfs_proto::{Attr, InodeId, Refusal};
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What the door serves.
pub struct Kernel {
    pub client: Arc<Client>,
    pub clock: Clock,
    pub lifetimes: Lifetimes,
    pub page_cache: bool,
    /// Nothing changes through this mount, whatever flags the kernel has on it by now (`mount -o remount,rw`).
    pub read_only: bool,
    pub privileged: Privileged,
    /// Since it is mounted.
    pub notifier: OnceLock<Notifier>,
    pub kernel_permissions: bool,
    /// The kernel asks us for locks.
    pub locks: bool,
    pub meter: Arc<Meter>,
}

impl Kernel {
    /// Attributes are about to be given to the kernel: how long it may believe them.
    pub fn attributes_lifetime(&self, attr: &Attr) -> Duration {
        self.privileged.given(attr, || self.clock.boot())
    }

    /// A process without privileges has changed the file's content: setuid and setgid are gone, and the kernel hears of it
    /// before the process does.
    pub fn lost_privileges(&self, ino: InodeId) {
        if self.privileged.take(ino) {
            self.forget_attributes(ino);
        }
    }

    /// What was asked changed attributes, and the kernel does not know that it does.
    pub fn forget_attributes(&self, ino: InodeId) {
        let Some(notifier) = self.notifier.get() else {
            return;
        };
        match notifier.inval_attributes(convert::node(ino)) {
            // It has forgotten the inode meanwhile.
            Ok(()) | Err(NotifyError::Unknown) => {}
            Err(error) => {
                tracing::warn!(inode = format_args!("{:x}", ino.0), %error, "the kernel could not be told that attributes have changed; it may show old ones for some seconds");
            }
        }
    }

    /// # Errors
    /// `ReadOnly` on a mount through which nothing changes.
    pub fn must_be_writable(&self) -> std::result::Result<(), Refusal> {
        match self.read_only {
            true => Err(Refusal::ReadOnly),
            false => Ok(()),
        }
    }

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
    (@allowed $kernel:ident changes) => { $kernel.must_be_writable() };
    (@allowed $kernel:ident) => { Ok(()) };
    ($($index:literal $method:ident($op:ty) -> $answer:ty = $function:path $(, $changes:ident)?;)*) => {
        impl FileSystem for Kernel {
            fn mounted(&self, mounted: &Mounted) {
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
                    self.answer($index, node, work).await
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
    3 setattr(op::Setattr) -> Attributes = ops::attrs::setattr, changes;
    4 readlink(()) -> Vec<u8> = ops::names::readlink;
    5 symlink(op::Symlink) -> Entry = ops::names::symlink, changes;
    6 mknod(op::Mknod) -> Entry = ops::names::mknod, changes;
    7 mkdir(op::Mkdir) -> Entry = ops::names::mkdir, changes;
    8 unlink(op::Unlink) -> () = ops::names::unlink, changes;
    9 rmdir(op::Rmdir) -> () = ops::names::rmdir, changes;
    10 rename(op::Rename) -> () = ops::names::rename, changes;
    11 link(op::Link) -> Entry = ops::names::link, changes;
    12 open(op::Open) -> Opened = ops::open::open;
    13 create(op::Create) -> Created = ops::open::create, changes;
    14 tmpfile(op::Tmpfile) -> Created = ops::open::tmpfile, changes;
    15 read(op::Read) -> Data = ops::data::read;
    16 write(op::Write) -> u32 = ops::data::write, changes;
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
    27 setxattr(op::Setxattr) -> () = ops::xattrs::setxattr, changes;
    28 getxattr(op::Getxattr) -> Xattr = ops::xattrs::getxattr;
    29 listxattr(op::Listxattr) -> Xattr = ops::xattrs::listxattr;
    30 removexattr(op::Removexattr) -> () = ops::xattrs::removexattr, changes;
    31 fallocate(op::Fallocate) -> () = ops::space::fallocate, changes;
    32 lseek(op::Lseek) -> u64 = ops::space::lseek;
    33 copy_file_range(op::CopyFileRange) -> u64 = ops::space::copy_file_range, changes;
    34 access(op::Access) -> () = ops::attrs::access;
    35 getlk(op::Lock) -> FileLock = ops::locks::getlk;
    36 setlk(op::Lock) -> () = ops::locks::setlk;
    37 setlkw(op::Lock) -> () = ops::locks::setlkw;
    38 ioctl(op::Ioctl) -> Ioctled = ops::flags::ioctl;
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
