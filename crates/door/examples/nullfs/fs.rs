//! Names and sizes in one map.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gupfs_door::{
    Attr, Attributes, Call, Created, Data, Dirents, Entry, Errno, FileSystem, Handle, NodeId,
    Opened, OpenedFlags, Result, op,
};

const TTL: Duration = Duration::from_secs(3600);

/// As many as one READ asks for, and then some.
static ZEROS: [u8; 4 << 20] = [0; 4 << 20];

#[derive(Default)]
struct State {
    names: BTreeMap<Box<[u8]>, NodeId>,
    sizes: BTreeMap<NodeId, u64>,
    last: u64,
}

pub struct NullFs(Mutex<State>);

impl NullFs {
    pub fn new() -> NullFs {
        NullFs(Mutex::new(State {
            last: NodeId::ROOT.0,
            ..State::default()
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn attr(node: NodeId, size: u64) -> Attr {
    let (mode, nlink) = if node == NodeId::ROOT {
        (0o040777, 2)
    } else {
        (0o100666, 1)
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

fn entry(node: NodeId, size: u64) -> Entry {
    Entry {
        node,
        generation: 0,
        name_ttl: TTL,
        attr: attr(node, size),
        attr_ttl: TTL,
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
        Ok(entry(node, state.sizes[&node]))
    }

    async fn getattr(&self, call: Call, _: op::Getattr) -> Result<Attributes> {
        let size = self.state().sizes.get(&call.node).copied().unwrap_or(0);
        Ok(Attributes {
            attr: attr(call.node, size),
            ttl: TTL,
        })
    }

    async fn setattr(&self, call: Call, op: op::Setattr) -> Result<Attributes> {
        let mut state = self.state();
        let size = state.sizes.entry(call.node).or_default();
        *size = op.size().unwrap_or(*size);
        Ok(Attributes {
            attr: attr(call.node, *size),
            ttl: TTL,
        })
    }

    async fn create(&self, _: Call, op: op::Create) -> Result<Created> {
        let mut state = self.state();
        state.last += 1;
        let node = NodeId(state.last);
        state.names.insert(op.name.into_boxed(), node);
        state.sizes.insert(node, 0);
        Ok(Created {
            entry: entry(node, 0),
            opened: opened(),
        })
    }

    async fn unlink(&self, _: Call, op: op::Unlink) -> Result<()> {
        let mut state = self.state();
        let node = state
            .names
            .remove(op.name.as_bytes())
            .ok_or(Errno::ENOENT)?;
        state.sizes.remove(&node);
        Ok(())
    }

    async fn open(&self, _: Call, _: op::Open) -> Result<Opened> {
        Ok(opened())
    }

    async fn read(&self, call: Call, op: op::Read) -> Result<Data> {
        let size = self.state().sizes.get(&call.node).copied().unwrap_or(0);
        let count = size.saturating_sub(op.offset).min(u64::from(op.size)) as usize;
        Ok(ZEROS[..count.min(ZEROS.len())].into())
    }

    async fn write(&self, call: Call, op: op::Write) -> Result<u32> {
        let mut state = self.state();
        let size = state.sizes.entry(call.node).or_default();
        *size = (*size).max(op.offset + op.data.len() as u64);
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
        let mut names: Vec<_> = state
            .names
            .iter()
            .filter(|(_, node)| node.0 > op.offset)
            .collect();
        names.sort_unstable_by_key(|(_, node)| **node);
        for (name, node) in names {
            if !dirents.push(node.0, node.0, 0o100000, name) {
                break;
            }
        }
        Ok(dirents)
    }
}
