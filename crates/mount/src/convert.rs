//! Conversion between FUSE types and gupfs types.

use gupfs_fuse::{EntryReply, FuseTimestamp, InodeAttr, NodeId};
use gupfs_proto::{Attr, InodeId, Timestamp};
use std::time::Duration;

pub fn node(ino: InodeId) -> NodeId {
    NodeId(ino.0)
}

pub fn inode(node: NodeId) -> InodeId {
    InodeId(node.0)
}

pub fn time(time: Timestamp) -> FuseTimestamp {
    FuseTimestamp {
        seconds: time.secs,
        nanos: time.nanos,
    }
}

pub fn timestamp(time: FuseTimestamp) -> Timestamp {
    Timestamp {
        secs: time.seconds,
        nanos: time.nanos,
    }
}

/// st_blksize, the preferred size of reads and writes. The page size: a larger one changes how the kernel rounds.
const BLOCK_SIZE: u32 = 4096;

pub fn attr(attr: &Attr) -> InodeAttr {
    InodeAttr {
        ino: attr.ino.0,
        size: attr.size,
        blocks: attr.blocks,
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        mode: attr.kind.type_bits() | u32::from(attr.mode.0),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: BLOCK_SIZE,
        flags: Default::default(),
    }
}

/// The entry reply for a name. Inode numbers are never reused, so one generation is enough.
pub fn entry(of: &Attr, name_ttl: Duration, attr_ttl: Duration) -> EntryReply {
    EntryReply {
        node: node(of.ino),
        generation: 0,
        name_ttl,
        attr: attr(of),
        attr_ttl,
    }
}
