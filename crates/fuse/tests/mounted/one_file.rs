//! Replies of a file system with one file.

use std::time::Duration;

use gupfs_fuse::{AttrReply, EntryReply, FileHandle, InodeAttr, NodeId, OpenReply, OpenReplyFlags};

const FILE: NodeId = NodeId(2);

fn attr(node: NodeId, size: u64) -> InodeAttr {
    let mode = match node {
        NodeId::ROOT => 0o040777,
        _ => 0o100444,
    };
    InodeAttr {
        ino: node.0,
        mode,
        nlink: 1,
        size,
        ..InodeAttr::default()
    }
}

pub fn entry(size: u64) -> EntryReply {
    EntryReply {
        node: FILE,
        generation: 0,
        name_ttl: Duration::ZERO,
        attr: attr(FILE, size),
        attr_ttl: Duration::ZERO,
    }
}

pub fn attributes(node: NodeId, size: u64) -> AttrReply {
    AttrReply {
        attr: attr(node, size),
        ttl: Duration::ZERO,
    }
}

pub fn opened() -> OpenReply {
    OpenReply {
        fh: FileHandle(0),
        flags: OpenReplyFlags::DIRECT_IO,
    }
}
