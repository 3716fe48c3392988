//! Between the words of the kernel and ours.

use gupfs_fuse::{Attr as DoorAttr, Entry, NodeId, Timestamp as DoorTime};
use gupfs_proto::{Attr, InodeId, Timestamp};
use std::time::Duration;

pub fn node(ino: InodeId) -> NodeId {
    NodeId(ino.0)
}

pub fn inode(node: NodeId) -> InodeId {
    InodeId(node.0)
}

pub fn time(time: Timestamp) -> DoorTime {
    DoorTime {
        seconds: time.secs,
        nanos: time.nanos,
    }
}

pub fn timestamp(time: DoorTime) -> Timestamp {
    Timestamp {
        secs: time.seconds,
        nanos: time.nanos,
    }
}

/// What programs should read and write at once, as st_blksize. The page size: larger ones change how the kernel rounds.
const BLOCK_SIZE: u32 = 4096;

pub fn attr(attr: &Attr) -> DoorAttr {
    DoorAttr {
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

/// A name's answer. Inode numbers are never reused, so one generation is enough.
pub fn entry(of: &Attr, name_ttl: Duration, attr_ttl: Duration) -> Entry {
    Entry {
        node: node(of.ino),
        generation: 0,
        name_ttl,
        attr: attr(of),
        attr_ttl,
    }
}
