//! # op: what requests ask for, one struct a kind
//!
//! Owns   the fields of every request, read from the wire, every flag kept.
//! Never  judges them.
//! Enter  at the struct named like the method of `FileSystem`.
//!
//! Structs own what they carry, so a handler may move them into a task. Names are copied out of the message (one small
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
pub use names::{Link, Lookup, Mkdir, Mknod, Name, Rename, Rmdir, Symlink, Unlink};
pub use space::{Bmap, CopyFileRange, Fallocate, Lseek};
pub(crate) use xattrs::SetxattrShort;
pub use xattrs::{Getxattr, Listxattr, Removexattr, Setxattr};
