//! # wire: the layout of the kernel's messages
//!
//! Owns   the layout of every message, the numbers of opcodes and flags.
//! Never  reads or writes a descriptor, or knows a handler.
//! Enter  at `RequestHeader::from_wire` for requests, `values` and `reply` for replies.
//!
//! A message is one `read` or one `write` of the device. All numbers are in the byte order of the host. The compiler's struct
//! layout is not used: fields are parsed one after the other, so alignment does not matter and no unsafe code is needed.
//!
//! ## Every request
//!
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 4 | length of the message, header included |
//! | 4 | 4 | opcode |
//! | 8 | 8 | unique |
//! | 16 | 8 | node id |
//! | 24 | 4 | uid |
//! | 28 | 4 | gid |
//! | 32 | 4 | pid |
//! | 36 | 2 | length of the extensions at the end, in units of 8 bytes |
//! | 38 | 2 | padding |
//! | 40 | … | body, then extensions |
//!
//! An extension is `size u32, type u32, bytes, padding to 8`. Types up to 31 are security contexts (skipped); 32 is
//! `count u32, gid u32 × count`: groups of the caller that matter for a new object.
//!
//! ## Every reply
//!
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 4 | length, header included |
//! | 4 | 4 | 0 or the negative error number; for a notification (unique 0) its kind |
//! | 8 | 8 | unique of the request |
//! | 16 | … | body, absent with an error |
//!
//! ## Bodies
//!
//! `name` is bytes terminated by a zero byte; `…` is the rest of the message.
//!
//! | opcode | request | reply |
//! |---|---|---|
//! | LOOKUP 1 | name | entry |
//! | FORGET 2 | lookups u64 | none |
//! | GETATTR 3 | flags u32, pad, fh u64 | attr_out |
//! | SETATTR 4 | valid u32, pad, fh, size, lock owner, atime, mtime, ctime u64, their nanoseconds 3 × u32, mode u32, pad, uid, gid u32, pad | attr_out |
//! | READLINK 5 | | … |
//! | SYMLINK 6 | name, target | entry |
//! | MKNOD 8 | mode, rdev, umask u32, pad, name | entry |
//! | MKDIR 9 | mode, umask u32, name | entry |
//! | UNLINK 10, RMDIR 11 | name | |
//! | RENAME 12 | new directory u64, old name, new name | |
//! | LINK 13 | old node u64, name | entry |
//! | OPEN 14, OPENDIR 27 | flags, open flags u32 | open_out |
//! | READ 15, READDIR 28, READDIRPLUS 44 | fh, offset u64, size, read flags u32, lock owner u64, flags u32, pad | … |
//! | WRITE 16 | fh, offset u64, size, write flags u32, lock owner u64, flags u32, pad, … | size u32, pad |
//! | STATFS 17 | | statfs |
//! | RELEASE 18, RELEASEDIR 29 | fh u64, flags, release flags u32, lock owner u64 | |
//! | FSYNC 20, FSYNCDIR 30 | fh u64, fsync flags u32, pad | |
//! | SETXATTR 21 | size, flags u32, with SETXATTR_EXT: setxattr flags u32, pad; name, … | |
//! | GETXATTR 22 | size u32, pad, name | size u32, pad for a request with size 0, else … |
//! | LISTXATTR 23 | size u32, pad | as GETXATTR |
//! | REMOVEXATTR 24 | name | |
//! | FLUSH 25 | fh u64, pad u64, lock owner u64 | |
//! | INIT 26 | major, minor, max read-ahead, flags, flags2 u32, 11 × u32 | see `init` |
//! | GETLK 31, SETLK 32, SETLKW 33 | fh, owner, start, end u64, type, pid, lock flags u32, pad | GETLK: start, end u64, type, pid u32 |
//! | ACCESS 34 | mask u32, pad | |
//! | CREATE 35, TMPFILE 51 | flags, mode, umask, open flags u32, name | entry, open_out |
//! | INTERRUPT 36 | unique u64 | none |
//! | BMAP 37 | block u64, block size u32, pad | block u64 |
//! | DESTROY 38 | | |
//! | IOCTL 39 | fh u64, flags, cmd u32, arg u64, in size, out size u32, … | result i32, flags, in, out u32, … |
//! | POLL 40 | fh, kh u64, flags, events u32 | revents u32, pad |
//! | NOTIFY_REPLY 41 | pad u64, offset u64, size u32, pad 20, … | none |
//! | BATCH_FORGET 42 | count u32, pad, count × (node, lookups u64) | none |
//! | FALLOCATE 43 | fh, offset, length u64, mode u32, pad | |
//! | RENAME2 45 | new directory u64, flags u32, pad, old name, new name | |
//! | LSEEK 46 | fh, offset u64, whence u32, pad | offset u64 |
//! | COPY_FILE_RANGE 47 | fh in, offset in, node out, fh out, offset out, length, flags u64 | size u32, pad |
//! | COPY_FILE_RANGE_64 53 | as 47 | size u64 |
//! | SETUPMAPPING 48, REMOVEMAPPING 49 | not read | ENOSYS |
//! | SYNCFS 50 | pad u64 | |
//! | STATX 52 | getattr flags u32, pad, fh u64, flags, mask u32 | attr valid u64, its nanoseconds, pad u32, pad 16, statx |
//!
//! | part | layout |
//! |---|---|
//! | entry, 128 bytes | node, generation, entry valid, attr valid u64, their nanoseconds 2 × u32, attr |
//! | attr_out, 104 | attr valid u64, its nanoseconds u32, pad, attr |
//! | attr, 88 | ino, size, blocks, atime, mtime, ctime u64, their nanoseconds 3 × u32, mode, nlink, uid, gid, rdev, blksize, flags u32 |
//! | open_out, 16 | fh u64, flags u32, backing id i32 |
//! | statfs, 80 | blocks, bfree, bavail, files, ffree u64, bsize, namelen, frsize u32, pad 28 |
//! | statx, 256 | as statx(2), with the device and the mount left out |
//! | directory entry | ino u64, offset of the next u64, length u32, type u32, name, pad to 8; READDIRPLUS: entry before it |

mod cursor;
mod flags;
mod header;
pub mod init;
mod opcode;
mod put;

pub use cursor::{Cursor, FromWire, Malformed};
pub use flags::{
    AttrFlags, FsyncFlags, GetattrFlags, InitFlags, IoctlFlags, LockFlags, OpenFlags,
    OpenReplyFlags, PollFlags, ReadFlags, ReleaseFlags, SetattrValid, SetxattrFlags, WriteFlags,
};
pub(crate) use header::ReplyHeader;
pub use header::{Groups, RequestHeader, split};
pub use opcode::Opcode;
pub use put::Put;
