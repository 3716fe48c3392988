//! # op: the arguments of requests, one struct per operation
//!
//! Owns   the fields of every request as parsed from the wire; unknown flags are kept.
//! Never  validates their meaning.
//! Enter  at the struct that is named like the method of `FileSystem`.
//!
//! The structs own their contents, so a handler may move them into a task. Names are copied out of the message (one small
//! allocation); the payload of WRITE is the message's own buffer.

mod attrs;
mod control;
mod dirs;
mod files;
mod locks;
mod names;
mod space;
mod xattrs;

pub use attrs::{Access, Getattr, SetTime, Setattr, Statx};
pub(crate) use control::{BatchForget, Interrupt, RetrievedHead};
pub use control::{Forget, Ioctl, Poll, Retrieved};
pub use dirs::Readdir;
pub(crate) use files::WriteHead;
pub use files::{Create, Flush, Fsync, Open, Read, Release, Tmpfile, Write};
pub use locks::{FileLock, Lock, LockKind};
pub(crate) use names::RenamePlain;
pub use names::{EntryName, Link, Lookup, Mkdir, Mknod, Rename, Rmdir, Symlink, Unlink};
pub use space::{Bmap, CopyFileRange, Fallocate, Lseek};
pub(crate) use xattrs::SetxattrShort;
pub use xattrs::{Getxattr, Listxattr, Removexattr, Setxattr};
