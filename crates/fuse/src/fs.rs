//! What a file system implements.

use std::future::{Future, ready};

use crate::op::{self, FileLock};
use crate::session::Mounted;
use crate::values::{Attributes, Created, Data, Entry, Ioctled, Opened, Statfs, Statxed, Xattr};
use crate::{Call, Dirents, DirentsPlus, Errno, Result};

macro_rules! operations {
    ($($(#[$doc:meta])* $method:ident($op:ty) -> $answer:ty;)*) => {
        /// One method an operation. All but those a file system implements answer ENOSYS, which the kernel takes as
        /// "never ask again" for most of them and does without.
        ///
        /// Implementations are written `async fn lookup(&self, call: Call, op: op::Lookup) -> Result<Entry>`. The
        /// thread that read the request polls the future once; if it is ready then, the answer is written by that
        /// thread, and nothing else has run. If it is not, the `Spawner` gets it when it is woken. A method that may block the thread
        /// blocks one of few reactors: hand such work to a task.
        pub trait FileSystem: Send + Sync + 'static {
            /// The kernel and we have agreed; no request has been read yet. The notifier may be kept.
            fn mounted(&self, mounted: &Mounted) {
                let _ = mounted;
            }

            /// The connection has ended; no request will come. Called once, by the last reactor, before
            /// `Session::wait` returns.
            fn unmounted(&self) {}

            /// References the kernel gives back. Nobody waits.
            fn forget(&self, batch: Vec<op::Forget>) -> impl Future<Output = ()> + Send {
                let _ = batch;
                ready(())
            }

            /// Pages that `Notifier::retrieve` asked for; `call.unique` is what it was given. Nobody waits.
            fn retrieved(&self, call: Call, op: op::Retrieved) -> impl Future<Output = ()> + Send {
                let _ = (call, op);
                ready(())
            }

            $(
                $(#[$doc])*
                fn $method(&self, call: Call, op: $op) -> impl Future<Output = Result<$answer>> + Send {
                    let _ = (call, op);
                    ready(Err(Errno::ENOSYS))
                }
            )*
        }
    };
}

operations! {
    /// Which node has this name?
    lookup(op::Lookup) -> Entry;
    /// What are the attributes of `call.node`?
    getattr(op::Getattr) -> Attributes;
    /// The same, with the time of creation.
    statx(op::Statx) -> Statxed;
    /// Change attributes; the answer is what they are now.
    setattr(op::Setattr) -> Attributes;
    /// What does the symbolic link `call.node` say?
    readlink(()) -> Vec<u8>;
    /// A new symbolic link in `call.node`.
    symlink(op::Symlink) -> Entry;
    /// A new file, fifo, socket or device in `call.node`.
    mknod(op::Mknod) -> Entry;
    /// A new directory in `call.node`.
    mkdir(op::Mkdir) -> Entry;
    /// One name less in `call.node`.
    unlink(op::Unlink) -> ();
    /// One empty directory less in `call.node`.
    rmdir(op::Rmdir) -> ();
    /// Another name for what has one.
    rename(op::Rename) -> ();
    /// One more name in `call.node`.
    link(op::Link) -> Entry;
    /// Open the file `call.node`.
    open(op::Open) -> Opened;
    /// Create in `call.node` if absent, and open. After ENOSYS the kernel uses MKNOD and OPEN.
    create(op::Create) -> Created;
    /// A file without a name, opened.
    tmpfile(op::Tmpfile) -> Created;
    /// At most `op.size` bytes; fewer only at the end of the file.
    read(op::Read) -> Data;
    /// The answer is how many bytes were taken.
    write(op::Write) -> u32;
    /// One descriptor of an open file is closed.
    flush(op::Flush) -> ();
    /// The last one is gone.
    release(op::Release) -> ();
    /// Make what was written durable.
    fsync(op::Fsync) -> ();
    /// Open the directory `call.node`.
    opendir(op::Open) -> Opened;
    /// Names of an open directory.
    readdir(op::Readdir) -> Dirents;
    /// Names and attributes.
    readdirplus(op::Readdir) -> DirentsPlus;
    /// An open directory is closed.
    releasedir(op::Release) -> ();
    /// Make the changes of a directory durable.
    fsyncdir(op::Fsync) -> ();
    /// How full is the file system?
    statfs(()) -> Statfs;
    /// Make everything durable.
    syncfs(()) -> ();
    setxattr(op::Setxattr) -> ();
    getxattr(op::Getxattr) -> Xattr;
    listxattr(op::Listxattr) -> Xattr;
    removexattr(op::Removexattr) -> ();
    /// Who stands in the way of this lock? `LockKind::Unlock` if nobody.
    getlk(op::Lock) -> FileLock;
    /// Lock or unlock now, or EAGAIN.
    setlk(op::Lock) -> ();
    /// Lock, and wait for it; `call.interrupted()` ends the wait with EINTR. Also unlock: that is how flock(2) asks for
    /// it without LOCK_NB.
    setlkw(op::Lock) -> ();
    /// May the caller? Only without default_permissions.
    access(op::Access) -> ();
    fallocate(op::Fallocate) -> ();
    /// Where is the next hole, the next data?
    lseek(op::Lseek) -> u64;
    /// The answer is how many bytes were copied.
    copy_file_range(op::CopyFileRange) -> u64;
    bmap(op::Bmap) -> u64;
    ioctl(op::Ioctl) -> Ioctled;
    /// Which of the events are there? POLL…
    poll(op::Poll) -> u32;
}
