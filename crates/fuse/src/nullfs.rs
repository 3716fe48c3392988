//! An empty file system, to measure the cost of the protocol and the kernel alone: a lower bound for every file system built on
//! this crate.
//!
//! One directory with names and sizes. Files have no bytes: a write is discarded, a read returns whatever the reply buffer
//! contains. For measurements only.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{
    AttrReply, Call, CreateReply, Dirents, DirentsPlus, EntryReply, Errno, FileHandle, FileSystem,
    InitFlags, InodeAttr, MountConfig, NodeId, OpenReply, OpenReplyFlags, ReplyData, Result, op,
};

const TTL: Duration = Duration::from_secs(3600);

/// Attributes of files whose names have this prefix have lifetime zero, so the kernel requests them each time.
pub const UNCACHED_PREFIX: &[u8] = b"asks";

#[derive(Default)]
struct NullFsState {
    names: BTreeMap<Box<[u8]>, NodeId>,
    files: BTreeMap<NodeId, File>,
    last: u64,
}

struct File {
    name: Box<[u8]>,
    size: u64,
}

/// Mount options for it. Without ACLs: with them the kernel requests the ACL at every create.
pub fn config() -> MountConfig {
    let mut config = MountConfig::new("nothing", "nullfs");
    config.wanted_flags -= InitFlags::POSIX_ACL;
    config
}

/// The empty file system; see the module's documentation.
pub struct NullFs(Mutex<NullFsState>);

impl NullFs {
    /// Creates the file system with `files` empty files.
    pub fn new(files: usize) -> NullFs {
        let mut state = NullFsState {
            last: NodeId::ROOT.0,
            ..NullFsState::default()
        };
        for number in 0..files {
            state.add(format!("there-{number:08}").into_bytes().into_boxed_slice());
        }
        NullFs(Mutex::new(state))
    }

    fn state(&self) -> MutexGuard<'_, NullFsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NullFsState {
    fn add(&mut self, name: Box<[u8]>) -> NodeId {
        self.last += 1;
        let node = NodeId(self.last);
        self.names.insert(name.clone(), node);
        self.files.insert(node, File { name, size: 0 });
        node
    }

    fn entry(&self, node: NodeId) -> Result<EntryReply> {
        let file = self.files.get(&node).ok_or(Errno::ESTALE)?;
        Ok(EntryReply {
            node,
            generation: 0,
            name_ttl: TTL,
            attr: attr(node, file.size),
            attr_ttl: lifetime(&file.name),
        })
    }

    fn attributes(&self, node: NodeId) -> Result<AttrReply> {
        if node == NodeId::ROOT {
            return Ok(AttrReply {
                attr: attr(node, 0),
                ttl: TTL,
            });
        }
        let entry = self.entry(node)?;
        Ok(AttrReply {
            attr: entry.attr,
            ttl: entry.attr_ttl,
        })
    }
}

fn lifetime(name: &[u8]) -> Duration {
    match name.starts_with(UNCACHED_PREFIX) {
        true => Duration::ZERO,
        false => TTL,
    }
}

fn attr(node: NodeId, size: u64) -> InodeAttr {
    let (mode, nlink) = match node {
        NodeId::ROOT => (0o040777, 2),
        _ => (0o100666, 1),
    };
    InodeAttr {
        ino: node.0,
        size,
        mode,
        nlink,
        blksize: 1 << 20,
        ..InodeAttr::default()
    }
}

fn opened() -> OpenReply {
    OpenReply {
        fh: FileHandle(0),
        flags: OpenReplyFlags::DIRECT_IO | OpenReplyFlags::PARALLEL_DIRECT_WRITES,
    }
}

impl FileSystem for NullFs {
    async fn lookup(&self, _: Call, op: op::Lookup) -> Result<EntryReply> {
        let state = self.state();
        let node = *state.names.get(op.name.as_bytes()).ok_or(Errno::ENOENT)?;
        state.entry(node)
    }

    async fn getattr(&self, call: Call, _: op::Getattr) -> Result<AttrReply> {
        self.state().attributes(call.node)
    }

    async fn setattr(&self, call: Call, op: op::Setattr) -> Result<AttrReply> {
        let mut state = self.state();
        if let (Some(file), Some(size)) = (state.files.get_mut(&call.node), op.size()) {
            file.size = size;
        }
        state.attributes(call.node)
    }

    async fn create(&self, _: Call, op: op::Create) -> Result<CreateReply> {
        let mut state = self.state();
        let node = state.add(op.name.into_boxed());
        Ok(CreateReply {
            entry: state.entry(node)?,
            opened: opened(),
        })
    }

    async fn unlink(&self, _: Call, op: op::Unlink) -> Result<()> {
        let mut state = self.state();
        let node = state
            .names
            .remove(op.name.as_bytes())
            .ok_or(Errno::ENOENT)?;
        state.files.remove(&node);
        Ok(())
    }

    async fn open(&self, _: Call, _: op::Open) -> Result<OpenReply> {
        Ok(opened())
    }

    async fn read(&self, call: Call, op: op::Read) -> Result<ReplyData> {
        let size = self
            .state()
            .files
            .get(&call.node)
            .map_or(0, |file| file.size);
        let count = size.saturating_sub(op.offset).min(u64::from(op.size)) as usize;
        // Like a file system that received the bytes directly into the memory of the reply.
        Ok(call.scratch(count).into())
    }

    async fn write(&self, call: Call, op: op::Write) -> Result<u32> {
        let mut state = self.state();
        let file = state.files.get_mut(&call.node).ok_or(Errno::ESTALE)?;
        file.size = file.size.max(op.offset + op.data.len() as u64);
        Ok(op.data.len() as u32)
    }

    async fn release(&self, _: Call, _: op::Release) -> Result<()> {
        Ok(())
    }

    async fn opendir(&self, _: Call, _: op::Open) -> Result<OpenReply> {
        Ok(OpenReply::default())
    }

    async fn releasedir(&self, _: Call, _: op::Release) -> Result<()> {
        Ok(())
    }

    async fn readdir(&self, _: Call, op: op::Readdir) -> Result<Dirents> {
        let state = self.state();
        let mut dirents = Dirents::new(&op);
        // Node ids only grow, so a listing continues after the node id of its last entry.
        let after = (Bound::Excluded(NodeId(op.offset)), Bound::Unbounded);
        for (node, file) in state.files.range(after) {
            if !dirents.push(node.0, node.0, 0o100000, &file.name) {
                break;
            }
        }
        Ok(dirents)
    }

    async fn readdirplus(&self, _: Call, op: op::Readdir) -> Result<DirentsPlus> {
        let state = self.state();
        let mut dirents = DirentsPlus::new(&op);
        let after = (Bound::Excluded(NodeId(op.offset)), Bound::Unbounded);
        for (node, file) in state.files.range(after) {
            if !dirents.push(&state.entry(*node)?, node.0, &file.name) {
                break;
            }
        }
        Ok(dirents)
    }
}
