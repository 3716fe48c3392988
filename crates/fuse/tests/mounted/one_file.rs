//! What a file system says that has one file, whatever it is asked for.

use std::time::Duration;

use gupfs_fuse::{Attr, Attributes, Entry, Handle, NodeId, Opened, OpenedFlags};

const FILE: NodeId = NodeId(2);

fn attr(node: NodeId, size: u64) -> Attr {
    let mode = match node {
        NodeId::ROOT => 0o040777,
        _ => 0o100444,
    };
    Attr {
        ino: node.0,
        mode,
        nlink: 1,
        size,
        ..Attr::default()
    }
}

pub fn entry(size: u64) -> Entry {
    Entry {
        node: FILE,
        generation: 0,
        name_ttl: Duration::ZERO,
        attr: attr(FILE, size),
        attr_ttl: Duration::ZERO,
    }
}

pub fn attributes(node: NodeId, size: u64) -> Attributes {
    Attributes {
        attr: attr(node, size),
        ttl: Duration::ZERO,
    }
}

pub fn opened() -> Opened {
    Opened {
        fh: Handle(0),
        flags: OpenedFlags::DIRECT_IO,
    }
}
