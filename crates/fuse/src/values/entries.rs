//! Entries of directories, and files that are opened.

use std::time::Duration;

use super::attrs::InodeAttr;
use crate::wire::{Cursor, FromWire, Malformed, OpenReplyFlags, Put};
use crate::{FileHandle, NodeId};

/// The node of a name and its attributes. The kernel counts one lookup reference to the node for each such reply, until FORGET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryReply {
    pub node: NodeId,
    /// The pair of node id and generation is unique over all inodes of a mount.
    pub generation: u64,
    /// How long the kernel may cache the dentry.
    pub name_ttl: Duration,
    pub attr: InodeAttr,
    /// How long the kernel may cache the attributes.
    pub attr_ttl: Duration,
}

impl EntryReply {
    pub(crate) const WIRE: usize = 40 + InodeAttr::WIRE;

    /// A negative dentry that the kernel caches for `ttl`. To have the kernel cache nothing, reply ENOENT.
    pub fn absent(ttl: Duration) -> EntryReply {
        EntryReply {
            node: NodeId::NONE,
            generation: 0,
            name_ttl: ttl,
            attr: InodeAttr::default(),
            attr_ttl: Duration::ZERO,
        }
    }

    pub(crate) fn put(&self, out: &mut impl Put) {
        out.put_u64(self.node.0);
        out.put_u64(self.generation);
        out.put_u64(self.name_ttl.as_secs());
        out.put_u64(self.attr_ttl.as_secs());
        out.put_u32(self.name_ttl.subsec_nanos());
        out.put_u32(self.attr_ttl.subsec_nanos());
        self.attr.put(out);
    }
}

impl FromWire for EntryReply {
    fn from_wire(body: &mut Cursor<'_>) -> Result<EntryReply, Malformed> {
        let node = NodeId(body.u64("node")?);
        let generation = body.u64("generation")?;
        let (name, attr) = (body.u64("name seconds")?, body.u64("attr seconds")?);
        let name_ttl = Duration::new(name, body.u32("name nanoseconds")?);
        let attr_ttl = Duration::new(attr, body.u32("attr nanoseconds")?);
        Ok(EntryReply {
            node,
            generation,
            name_ttl,
            attr_ttl,
            attr: InodeAttr::from_wire(body)?,
        })
    }
}

/// The reply to OPEN and OPENDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenReply {
    pub fh: FileHandle,
    pub flags: OpenReplyFlags,
}

/// The reply to CREATE and TMPFILE: a new file, opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateReply {
    pub entry: EntryReply,
    pub opened: OpenReply,
}
