//! # probe server: the FUSE server that the probes mount
//!
//! Owns   a few files in one directory, each with its own lifetimes and open flags; a log of the requests.
//! Never  replies to an operation that is held back before the probe releases it.
//! Enter  at `ProbeServer`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gupfs_fuse::{
    AttrReply, Call, CreateReply, DirentsPlus, EntryReply, Errno, FileHandle, FileSystem,
    FuseTimestamp, InodeAttr, NodeId, OpenReply, OpenReplyFlags, ReplyData, Result, op,
};

use crate::request_gate::RequestGate;

/// A lifetime that is longer than any test.
pub const LONG_TTL: Duration = Duration::from_secs(3600);

/// Initial content byte and initial size of every file.
pub const INITIAL_BYTE: u8 = b'a';
pub const INITIAL_SIZE: u64 = 10_000;

#[derive(Default)]
pub struct ProbeServer {
    state: Mutex<ProbeState>,
    gates: Mutex<BTreeMap<&'static str, Arc<RequestGate>>>,
}

#[derive(Default)]
struct ProbeState {
    files: BTreeMap<NodeId, FileState>,
    log: Vec<String>,
}

#[derive(Clone)]
struct FileState {
    name: Vec<u8>,
    mode: u32,
    size: u64,
    mtime: i64,
    /// The byte that its content consists of.
    byte: u8,
    ttl: Duration,
    /// Lifetime of its dentry.
    name_ttl: Duration,
    /// LOOKUP does not find it, but CREATE does.
    hidden: bool,
    flags: OpenReplyFlags,
}

impl ProbeServer {
    fn state(&self) -> MutexGuard<'_, ProbeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gates(&self) -> MutexGuard<'_, BTreeMap<&'static str, Arc<RequestGate>>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a file or directory to the root.
    #[must_use]
    pub fn with(self, node: u64, name: &str, mode: u32, flags: OpenReplyFlags) -> ProbeServer {
        let file = FileState {
            name: name.into(),
            mode,
            size: INITIAL_SIZE,
            mtime: 1,
            byte: INITIAL_BYTE,
            ttl: LONG_TTL,
            name_ttl: LONG_TTL,
            hidden: false,
            flags,
        };
        self.state().files.insert(NodeId(node), file);
        self
    }

    #[must_use]
    pub fn file(self, node: u64, name: &str, flags: OpenReplyFlags) -> ProbeServer {
        self.with(node, name, 0o100666, flags)
    }

    /// Changes the file as if another client had.
    pub fn change(&self, node: u64, size: u64, byte: u8) {
        let mut state = self.state();
        if let Some(file) = state.files.get_mut(&NodeId(node)) {
            (file.size, file.byte) = (size, byte);
            file.mtime += 1;
        }
    }

    pub fn set_name_ttl(&self, node: u64, ttl: Duration) {
        let mut state = self.state();
        if let Some(file) = state.files.get_mut(&NodeId(node)) {
            file.name_ttl = ttl;
        }
    }

    /// Hides the file from LOOKUP, as if another client created it between LOOKUP and CREATE.
    pub fn hide(&self, node: u64) {
        let mut state = self.state();
        if let Some(file) = state.files.get_mut(&NodeId(node)) {
            file.hidden = true;
        }
    }

    /// Sets the open flags of later opens.
    pub fn set_open_flags(&self, node: u64, flags: OpenReplyFlags) {
        let mut state = self.state();
        if let Some(file) = state.files.get_mut(&NodeId(node)) {
            file.flags = flags;
        }
    }

    pub fn set_attr_ttl(&self, node: u64, ttl: Duration) {
        let mut state = self.state();
        if let Some(file) = state.files.get_mut(&NodeId(node)) {
            file.ttl = ttl;
        }
    }

    /// Makes later replies of this operation wait at the returned gate.
    pub fn hold_replies(&self, kind: &'static str) -> Arc<RequestGate> {
        let gate = Arc::new(RequestGate::new());
        self.gates().insert(kind, gate.clone());
        gate
    }

    /// Takes the log of requests since the last call: operation, then node or name, then details.
    pub fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.state().log)
    }

    /// Number of requests since the last call with this operation and node or name. Other programs may also access a new mount:
    /// a file manager, an indexer.
    pub fn count_requests(&self, kind: &str, target: impl Display) -> usize {
        let prefix = format!("{kind} {target}");
        let log = self.take_log();
        let about = |details: &&String| {
            let rest = details.strip_prefix(&prefix);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        log.iter().filter(about).count()
    }

    async fn log_and_wait(&self, kind: &'static str, details: String) {
        self.state
            .lock()
            .unwrap()
            .log
            .push(format!("{kind} {details}"));
        let gate = self.gates().get(kind).cloned();
        if let Some(gate) = gate {
            gate.wait_for_release().await;
        }
    }

    fn entry(&self, node: NodeId) -> Result<EntryReply> {
        let state = self.state();
        let file = state.files.get(&node).ok_or(Errno::ESTALE)?;
        Ok(EntryReply {
            node,
            generation: 0,
            name_ttl: file.name_ttl,
            attr: attr(node, file),
            attr_ttl: file.ttl,
        })
    }

    fn file_state(&self, node: NodeId) -> Result<FileState> {
        self.state().files.get(&node).cloned().ok_or(Errno::ESTALE)
    }

    fn node_named(&self, name: &[u8]) -> Result<NodeId> {
        let state = self.state();
        let found = state.files.iter().find(|(_, file)| file.name == name);
        found.map(|(node, _)| *node).ok_or(Errno::ENOENT)
    }
}

fn attr(node: NodeId, file: &FileState) -> InodeAttr {
    let mtime = FuseTimestamp {
        seconds: file.mtime,
        nanos: 0,
    };
    InodeAttr {
        ino: node.0,
        size: file.size,
        mode: file.mode,
        mtime,
        nlink: 2,
        ..InodeAttr::default()
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

impl FileSystem for ProbeServer {
    async fn lookup(&self, _: Call, op: op::Lookup) -> Result<EntryReply> {
        let found = match self.node_named(op.name.as_bytes()) {
            Ok(node) if !self.file_state(node)?.hidden => self.entry(node),
            _ => Ok(EntryReply::absent(LONG_TTL)),
        };
        self.log_and_wait("lookup", text(op.name.as_bytes())).await;
        found
    }

    async fn getattr(&self, call: Call, _: op::Getattr) -> Result<AttrReply> {
        if call.node == NodeId::ROOT {
            let attr = InodeAttr {
                ino: 1,
                mode: 0o040777,
                nlink: 2,
                ..InodeAttr::default()
            };
            return Ok(AttrReply {
                attr,
                ttl: LONG_TTL,
            });
        }
        let entry = self.entry(call.node);
        self.log_and_wait("getattr", call.node.to_string()).await;
        let entry = entry?;
        Ok(AttrReply {
            attr: entry.attr,
            ttl: entry.attr_ttl,
        })
    }

    async fn open(&self, call: Call, _: op::Open) -> Result<OpenReply> {
        let flags = self.file_state(call.node)?.flags;
        self.log_and_wait("open", call.node.to_string()).await;
        Ok(OpenReply {
            fh: FileHandle(7),
            flags,
        })
    }

    async fn read(&self, call: Call, op: op::Read) -> Result<ReplyData> {
        let FileState { size, byte, .. } = self.file_state(call.node)?;
        let owner = match op.lock_owner {
            Some(_) => " with owner",
            None => "",
        };
        self.log_and_wait("read", format!("{} at {}{owner}", call.node, op.offset))
            .await;
        let count = size.saturating_sub(op.offset).min(u64::from(op.size));
        Ok(vec![byte; count as usize].into())
    }

    async fn write(&self, call: Call, op: op::Write) -> Result<u32> {
        self.log_and_wait("write", format!("{} at {}", call.node, op.offset))
            .await;
        let mut state = self.state();
        let file = state.files.get_mut(&call.node).ok_or(Errno::ESTALE)?;
        file.size = file.size.max(op.offset + op.data.len() as u64);
        file.byte = op.data.first().copied().unwrap_or(file.byte);
        file.mtime += 1;
        Ok(op.data.len() as u32)
    }

    async fn create(&self, _: Call, op: op::Create) -> Result<CreateReply> {
        let name = text(op.name.as_bytes());
        let found = self.node_named(op.name.as_bytes());
        // Taken now: the reply may wait.
        let found = found.and_then(|node| self.entry(node));
        self.log_and_wait("create", name.clone()).await;
        if let Ok(entry) = found {
            return Ok(CreateReply {
                entry,
                opened: OpenReply::default(),
            });
        }
        let node = NodeId(1000 + name.len() as u64);
        let file = FileState {
            name: name.into_bytes(),
            mode: 0o100666,
            size: 0,
            mtime: 1,
            byte: b'n',
            ttl: LONG_TTL,
            name_ttl: LONG_TTL,
            hidden: false,
            flags: OpenReplyFlags::empty(),
        };
        self.state().files.insert(node, file);
        Ok(CreateReply {
            entry: self.entry(node)?,
            opened: OpenReply::default(),
        })
    }

    async fn link(&self, _: Call, op: op::Link) -> Result<EntryReply> {
        let entry = self.entry(op.target);
        self.log_and_wait("link", text(op.name.as_bytes())).await;
        entry
    }

    async fn opendir(&self, _: Call, _: op::Open) -> Result<OpenReply> {
        Ok(OpenReply::default())
    }

    async fn releasedir(&self, _: Call, _: op::Release) -> Result<()> {
        Ok(())
    }

    async fn readdirplus(&self, call: Call, op: op::Readdir) -> Result<DirentsPlus> {
        let mut dirents = DirentsPlus::new(&op);
        if call.node == NodeId::ROOT && op.offset == 0 {
            let nodes: Vec<NodeId> = self.state().files.keys().copied().collect();
            for node in nodes {
                let name = self.file_state(node)?.name;
                if !dirents.push(&self.entry(node)?, node.0, &name) {
                    break;
                }
            }
        }
        self.log_and_wait("readdirplus", op.offset.to_string())
            .await;
        Ok(dirents)
    }

    async fn setlk(&self, call: Call, op: op::Lock) -> Result<()> {
        let mut details = format!("{} {:?}", call.node, op.lock.kind);
        if !op.is_flock() {
            details += &format!(" by {}", op.owner.0);
        }
        self.log_and_wait("setlk", details).await;
        Ok(())
    }

    async fn setlkw(&self, call: Call, op: op::Lock) -> Result<()> {
        self.setlk(call, op).await
    }

    async fn flush(&self, call: Call, op: op::Flush) -> Result<()> {
        self.log_and_wait("flush", format!("{} by {}", call.node, op.lock_owner.0))
            .await;
        Ok(())
    }

    async fn release(&self, call: Call, op: op::Release) -> Result<()> {
        self.log_and_wait("release", format!("{} {:?}", call.node, op.flags))
            .await;
        Ok(())
    }
}
