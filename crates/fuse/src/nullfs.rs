//! An empty file system, to measure what door and kernel cost by themselves: the floor of everything built on them.
//!
//! One directory with names and sizes. Files have no bytes: what is written goes nowhere, what is read is whatever lay in
//! the memory that answers: to be used by who measures, and nobody else.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{
    Attr, Attributes, Call, Config, Created, Data, Dirents, DirentsPlus, Entry, Errno, FileSystem,
    Handle, InitFlags, NodeId, Opened, OpenedFlags, Result, op,
};

const TTL: Duration = Duration::from_secs(3600);

/// Files whose names begin so are asked for their attributes each time.
pub const ASKS: &[u8] = b"asks";

#[derive(Default)]
struct State {
    names: BTreeMap<Box<[u8]>, NodeId>,
    files: BTreeMap<NodeId, File>,
    last: u64,
}

struct File {
    name: Box<[u8]>,
    size: u64,
}

/// How it is mounted. Without ACLs: with them the kernel asks for them at every create.
pub fn config() -> Config {
    let mut config = Config::new("nothing", "nullfs");
    config.want -= InitFlags::POSIX_ACL;
    config
}

/// See the module.
pub struct NullFs(Mutex<State>);

impl NullFs {
    /// With so many files in it already.
    pub fn new(files: usize) -> NullFs {
        let mut state = State {
            last: NodeId::ROOT.0,
            ..State::default()
        };
        for number in 0..files {
            state.add(format!("there-{number:08}").into_bytes().into_boxed_slice());
        }
        NullFs(Mutex::new(state))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, name: Box<[u8]>) -> NodeId {
        self.last += 1;
        let node = NodeId(self.last);
        self.names.insert(name.clone(), node);
        self.files.insert(node, File { name, size: 0 });
        node
    }

    fn entry(&self, node: NodeId) -> Result<Entry> {
        let file = self.files.get(&node).ok_or(Errno::ESTALE)?;
        Ok(Entry {
            node,
            generation: 0,
            name_ttl: TTL,
            attr: attr(node, file.size),
            attr_ttl: lifetime(&file.name),
        })
    }

    fn attributes(&self, node: NodeId) -> Result<Attributes> {
        if node == NodeId::ROOT {
            return Ok(Attributes {
                attr: attr(node, 0),
                ttl: TTL,
            });
        }
        let entry = self.entry(node)?;
        Ok(Attributes {
            attr: entry.attr,
            ttl: entry.attr_ttl,
        })
    }
}

fn lifetime(name: &[u8]) -> Duration {
    match name.starts_with(ASKS) {
        true => Duration::ZERO,
        false => TTL,
    }
}

fn attr(node: NodeId, size: u64) -> Attr {
    let (mode, nlink) = match node {
        NodeId::ROOT => (0o040777, 2),
        _ => (0o100666, 1),
    };
    Attr {
        ino: node.0,
        size,
        mode,
        nlink,
        blksize: 1 << 20,
        ..Attr::default()
    }
}

fn opened() -> Opened {
    Opened {
        fh: Handle(0),
        flags: OpenedFlags::DIRECT_IO | OpenedFlags::PARALLEL_DIRECT_WRITES,
    }
}

impl FileSystem for NullFs {
    async fn lookup(&self, _: Call, op: op::Lookup) -> Result<Entry> {
        let state = self.state();
        let node = *state.names.get(op.name.as_bytes()).ok_or(Errno::ENOENT)?;
        state.entry(node)
    }

    async fn getattr(&self, call: Call, _: op::Getattr) -> Result<Attributes> {
        self.state().attributes(call.node)
    }

    async fn setattr(&self, call: Call, op: op::Setattr) -> Result<Attributes> {
        let mut state = self.state();
        if let (Some(file), Some(size)) = (state.files.get_mut(&call.node), op.size()) {
            file.size = size;
        }
        state.attributes(call.node)
    }

    async fn create(&self, _: Call, op: op::Create) -> Result<Created> {
        let mut state = self.state();
        let node = state.add(op.name.into_boxed());
        Ok(Created {
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

    async fn open(&self, _: Call, _: op::Open) -> Result<Opened> {
        Ok(opened())
    }

    async fn read(&self, call: Call, op: op::Read) -> Result<Data> {
        let size = self
            .state()
            .files
            .get(&call.node)
            .map_or(0, |file| file.size);
        let count = size.saturating_sub(op.offset).min(u64::from(op.size)) as usize;
        // As if the bytes had been received where the answer is taken from.
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

    async fn opendir(&self, _: Call, _: op::Open) -> Result<Opened> {
        Ok(Opened::default())
    }

    async fn releasedir(&self, _: Call, _: op::Release) -> Result<()> {
        Ok(())
    }

    async fn readdir(&self, _: Call, op: op::Readdir) -> Result<Dirents> {
        let state = self.state();
        let mut dirents = Dirents::new(&op);
        // Nodes only grow: a name is found again behind the node it came with.
        let behind = (Bound::Excluded(NodeId(op.offset)), Bound::Unbounded);
        for (node, file) in state.files.range(behind) {
            if !dirents.push(node.0, node.0, 0o100000, &file.name) {
                break;
            }
        }
        Ok(dirents)
    }

    async fn readdirplus(&self, _: Call, op: op::Readdir) -> Result<DirentsPlus> {
        let state = self.state();
        let mut dirents = DirentsPlus::new(&op);
        let behind = (Bound::Excluded(NodeId(op.offset)), Bound::Unbounded);
        for (node, file) in state.files.range(behind) {
            if !dirents.push(&state.entry(*node)?, node.0, &file.name) {
                break;
            }
        }
        Ok(dirents)
    }
}
