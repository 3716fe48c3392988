//! # probe: the server that tries a kernel
//!
//! Owns   a few files in one directory, each with its own lifetime and door; what was asked, in words.
//! Never  answers a kind of request that is held back before it is let go.
//! Enter  at `Probe`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use gupfs_fuse::{
    Attr, Attributes, Call, Created, Data, DirentsPlus, Entry, Errno, FileSystem, Handle, NodeId,
    Opened, OpenedFlags, Result, Timestamp, op,
};

use crate::Otherwise;

/// A lifetime that no try outlives.
pub const LONG: Duration = Duration::from_secs(3600);

/// What is not asked for so long is not asked for.
const PATIENCE: Duration = Duration::from_secs(5);

const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What a file consists of at first, and how much of it there is.
pub const BYTE: u8 = b'a';
pub const SIZE: u64 = 10_000;

#[derive(Default)]
pub struct Probe {
    state: Mutex<State>,
    gates: Mutex<BTreeMap<&'static str, Arc<Gate>>>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<NodeId, File>,
    log: Vec<String>,
}

#[derive(Clone)]
struct File {
    name: Vec<u8>,
    mode: u32,
    size: u64,
    mtime: i64,
    /// What it consists of.
    byte: u8,
    ttl: Duration,
    /// How long its name may be believed.
    name_ttl: Duration,
    /// LOOKUP does not find it; CREATE does.
    hidden: bool,
    flags: OpenedFlags,
}

/// Requests of one kind wait here for their answer.
pub struct Gate {
    waiting: AtomicUsize,
    open: tokio::sync::Semaphore,
}

impl Gate {
    /// How many wait now.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Until so many wait.
    pub async fn reached(&self, count: usize) -> Result<(), Otherwise> {
        let begun = Instant::now();
        while self.waiting() != count {
            if begun.elapsed() > PATIENCE {
                let found = self.waiting();
                return Err(Otherwise::Untried(format!(
                    "{found} requests wait where {count} should"
                )));
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Lets so many through, also of those to come.
    pub fn let_go(&self, count: usize) {
        self.open.add_permits(count);
    }
}

impl Probe {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gates(&self) -> MutexGuard<'_, BTreeMap<&'static str, Arc<Gate>>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file or directory in the root.
    #[must_use]
    pub fn with(self, node: u64, name: &str, mode: u32, flags: OpenedFlags) -> Probe {
        let file = File {
            name: name.into(),
            mode,
            size: SIZE,
            mtime: 1,
            byte: BYTE,
            ttl: LONG,
            name_ttl: LONG,
            hidden: false,
            flags,
        };
        self.state().files.insert(NodeId(node), file);
        self
    }

    #[must_use]
    pub fn file(self, node: u64, name: &str, flags: OpenedFlags) -> Probe {
        self.with(node, name, 0o100666, flags)
    }

    /// As if somebody else had changed the file.
    pub fn change(&self, node: u64, size: u64, byte: u8) {
        let mut state = self.state();
        if let Some(file) = state.files.get_mut(&NodeId(node)) {
            (file.size, file.byte) = (size, byte);
            file.mtime += 1;
        }
    }

    pub fn names_for(&self, node: u64, ttl: Duration) {
        let mut state = self.state();
        if let Some(file) = state.files.get_mut(&NodeId(node)) {
            file.name_ttl = ttl;
        }
    }

    /// As if a name were made between LOOKUP and CREATE.
    pub fn hide(&self, node: u64) {
        let mut state = self.state();
        if let Some(file) = state.files.get_mut(&NodeId(node)) {
            file.hidden = true;
        }
    }

    /// How the file is opened from now on.
    pub fn opens(&self, node: u64, flags: OpenedFlags) {
        let mut state = self.state();
        if let Some(file) = state.files.get_mut(&NodeId(node)) {
            file.flags = flags;
        }
    }

    pub fn believed_for(&self, node: u64, ttl: Duration) {
        let mut state = self.state();
        if let Some(file) = state.files.get_mut(&NodeId(node)) {
            file.ttl = ttl;
        }
    }

    /// From now on answers of this kind wait.
    pub fn hold(&self, kind: &'static str) -> Arc<Gate> {
        let gate = Arc::new(Gate {
            waiting: AtomicUsize::new(0),
            open: tokio::sync::Semaphore::new(0),
        });
        self.gates().insert(kind, gate.clone());
        gate
    }

    /// What was asked since the last call: kind, then node or name, then more.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state().log)
    }

    /// How many of what was asked since the last call are this kind of request about this node or name. Others may look at a
    /// new mount, too: a file manager, an indexer.
    pub fn asked_for(&self, kind: &str, whom: impl Display) -> usize {
        let begin = format!("{kind} {whom}");
        let asked = self.asked();
        let about = |what: &&String| {
            let rest = what.strip_prefix(&begin);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        asked.iter().filter(about).count()
    }

    async fn pass(&self, kind: &'static str, what: String) {
        self.state
            .lock()
            .unwrap()
            .log
            .push(format!("{kind} {what}"));
        let gate = self.gates().get(kind).cloned();
        if let Some(gate) = gate {
            gate.waiting.fetch_add(1, Ordering::Relaxed);
            if let Ok(permit) = gate.open.acquire().await {
                permit.forget();
            }
            gate.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn entry(&self, node: NodeId) -> Result<Entry> {
        let state = self.state();
        let file = state.files.get(&node).ok_or(Errno::ESTALE)?;
        Ok(Entry {
            node,
            generation: 0,
            name_ttl: file.name_ttl,
            attr: attr(node, file),
            attr_ttl: file.ttl,
        })
    }

    fn file_of(&self, node: NodeId) -> Result<File> {
        self.state().files.get(&node).cloned().ok_or(Errno::ESTALE)
    }

    fn named(&self, name: &[u8]) -> Result<NodeId> {
        let state = self.state();
        let found = state.files.iter().find(|(_, file)| file.name == name);
        found.map(|(node, _)| *node).ok_or(Errno::ENOENT)
    }
}

fn attr(node: NodeId, file: &File) -> Attr {
    let mtime = Timestamp {
        seconds: file.mtime,
        nanos: 0,
    };
    Attr {
        ino: node.0,
        size: file.size,
        mode: file.mode,
        mtime,
        nlink: 2,
        ..Attr::default()
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

impl FileSystem for Probe {
    async fn lookup(&self, _: Call, op: op::Lookup) -> Result<Entry> {
        let found = match self.named(op.name.as_bytes()) {
            Ok(node) if !self.file_of(node)?.hidden => self.entry(node),
            _ => Ok(Entry::absent(LONG)),
        };
        self.pass("lookup", text(op.name.as_bytes())).await;
        found
    }

    async fn getattr(&self, call: Call, _: op::Getattr) -> Result<Attributes> {
        if call.node == NodeId::ROOT {
            let attr = Attr {
                ino: 1,
                mode: 0o040777,
                nlink: 2,
                ..Attr::default()
            };
            return Ok(Attributes { attr, ttl: LONG });
        }
        let entry = self.entry(call.node);
        self.pass("getattr", call.node.to_string()).await;
        let entry = entry?;
        Ok(Attributes {
            attr: entry.attr,
            ttl: entry.attr_ttl,
        })
    }

    async fn open(&self, call: Call, _: op::Open) -> Result<Opened> {
        let flags = self.file_of(call.node)?.flags;
        self.pass("open", call.node.to_string()).await;
        Ok(Opened {
            fh: Handle(7),
            flags,
        })
    }

    async fn read(&self, call: Call, op: op::Read) -> Result<Data> {
        let File { size, byte, .. } = self.file_of(call.node)?;
        let owner = match op.lock_owner {
            Some(_) => " with owner",
            None => "",
        };
        self.pass("read", format!("{} at {}{owner}", call.node, op.offset))
            .await;
        let count = size.saturating_sub(op.offset).min(u64::from(op.size));
        Ok(vec![byte; count as usize].into())
    }

    async fn write(&self, call: Call, op: op::Write) -> Result<u32> {
        self.pass("write", format!("{} at {}", call.node, op.offset))
            .await;
        let mut state = self.state();
        let file = state.files.get_mut(&call.node).ok_or(Errno::ESTALE)?;
        file.size = file.size.max(op.offset + op.data.len() as u64);
        file.byte = op.data.first().copied().unwrap_or(file.byte);
        file.mtime += 1;
        Ok(op.data.len() as u32)
    }

    async fn create(&self, _: Call, op: op::Create) -> Result<Created> {
        let name = text(op.name.as_bytes());
        let found = self.named(op.name.as_bytes());
        // As it is now: the answer may wait.
        let found = found.and_then(|node| self.entry(node));
        self.pass("create", name.clone()).await;
        if let Ok(entry) = found {
            return Ok(Created {
                entry,
                opened: Opened::default(),
            });
        }
        let node = NodeId(1000 + name.len() as u64);
        let file = File {
            name: name.into_bytes(),
            mode: 0o100666,
            size: 0,
            mtime: 1,
            byte: b'n',
            ttl: LONG,
            name_ttl: LONG,
            hidden: false,
            flags: OpenedFlags::empty(),
        };
        self.state().files.insert(node, file);
        Ok(Created {
            entry: self.entry(node)?,
            opened: Opened::default(),
        })
    }

    async fn link(&self, _: Call, op: op::Link) -> Result<Entry> {
        let entry = self.entry(op.target);
        self.pass("link", text(op.name.as_bytes())).await;
        entry
    }

    async fn opendir(&self, _: Call, _: op::Open) -> Result<Opened> {
        Ok(Opened::default())
    }

    async fn releasedir(&self, _: Call, _: op::Release) -> Result<()> {
        Ok(())
    }

    async fn readdirplus(&self, call: Call, op: op::Readdir) -> Result<DirentsPlus> {
        let mut dirents = DirentsPlus::new(&op);
        if call.node == NodeId::ROOT && op.offset == 0 {
            let nodes: Vec<NodeId> = self.state().files.keys().copied().collect();
            for node in nodes {
                let name = self.file_of(node)?.name;
                if !dirents.push(&self.entry(node)?, node.0, &name) {
                    break;
                }
            }
        }
        self.pass("readdirplus", op.offset.to_string()).await;
        Ok(dirents)
    }

    async fn setlk(&self, call: Call, op: op::Lock) -> Result<()> {
        let mut what = format!("{} {:?}", call.node, op.lock.kind);
        if !op.is_flock() {
            what += &format!(" by {}", op.owner.0);
        }
        self.pass("setlk", what).await;
        Ok(())
    }

    async fn setlkw(&self, call: Call, op: op::Lock) -> Result<()> {
        self.setlk(call, op).await
    }

    async fn flush(&self, call: Call, op: op::Flush) -> Result<()> {
        self.pass("flush", format!("{} by {}", call.node, op.lock_owner.0))
            .await;
        Ok(())
    }

    async fn release(&self, call: Call, op: op::Release) -> Result<()> {
        self.pass("release", format!("{} {:?}", call.node, op.flags))
            .await;
        Ok(())
    }
}
