//! # probe server: the FUSE server that the probes mount
//!
//! Owns   a few files in one directory, each with its own lifetimes and open flags; a log of the requests.
//! Never  replies to an operation that is held back before the probe releases it.
//! Enter  at `ProbeServer`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gupfs_fuse::{EntryReply, Errno, FuseTimestamp, InodeAttr, NodeId, OpenReplyFlags, Result};

use crate::request_gate::RequestGate;

mod requests;

pub use requests::acl_user;

/// A lifetime that is longer than any test.
pub const LONG_TTL: Duration = Duration::from_secs(3600);

/// Initial content byte and initial size of every file.
pub const INITIAL_BYTE: u8 = b'a';
pub const INITIAL_SIZE: u64 = 10_000;

/// The extended attribute that holds an access ACL.
pub const ACCESS_ACL: &str = "system.posix_acl_access";

/// The user that the access ACL of every file names at first.
pub const INITIAL_ACL_USER: u32 = 1001;

#[derive(Default)]
pub struct ProbeServer {
    state: Mutex<ProbeState>,
    gates: Mutex<BTreeMap<&'static str, Arc<RequestGate>>>,
}

#[derive(Default)]
struct ProbeState {
    files: BTreeMap<NodeId, FileState>,
    log: Vec<String>,
    /// How often replies have named each node.
    lookups_given: BTreeMap<NodeId, u64>,
    /// How many of these the kernel has forgotten.
    forgotten: BTreeMap<NodeId, u64>,
    absent_ttl: Option<Duration>,
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
    acl_user: u32,
}

impl FileState {
    fn new(name: Vec<u8>, mode: u32, size: u64, byte: u8, flags: OpenReplyFlags) -> FileState {
        FileState {
            name,
            mode,
            size,
            mtime: 1,
            byte,
            ttl: LONG_TTL,
            name_ttl: LONG_TTL,
            hidden: false,
            flags,
            acl_user: INITIAL_ACL_USER,
        }
    }
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
        let file = FileState::new(name.into(), mode, INITIAL_SIZE, INITIAL_BYTE, flags);
        self.state().files.insert(NodeId(node), file);
        self
    }

    #[must_use]
    pub fn file(self, node: u64, name: &str, flags: OpenReplyFlags) -> ProbeServer {
        self.with(node, name, 0o100666, flags)
    }

    fn with_file(&self, node: u64, set: impl FnOnce(&mut FileState)) {
        if let Some(file) = self.state().files.get_mut(&NodeId(node)) {
            set(file);
        }
    }

    /// Changes the file as if another client had.
    pub fn change(&self, node: u64, size: u64, byte: u8) {
        self.with_file(node, |file| {
            (file.size, file.byte) = (size, byte);
            file.mtime += 1;
        });
    }

    /// Changes only the content: size and time of the last modification stay.
    pub fn change_content(&self, node: u64, byte: u8) {
        self.with_file(node, |file| file.byte = byte);
    }

    pub fn set_acl_user(&self, node: u64, user: u32) {
        self.with_file(node, |file| file.acl_user = user);
    }

    pub fn set_name_ttl(&self, node: u64, ttl: Duration) {
        self.with_file(node, |file| file.name_ttl = ttl);
    }

    /// Sets the lifetime of replies that there is no such name.
    pub fn set_absent_ttl(&self, ttl: Duration) {
        self.state().absent_ttl = Some(ttl);
    }

    /// Hides the file from LOOKUP, as if another client created it between LOOKUP and CREATE.
    pub fn hide(&self, node: u64) {
        self.with_file(node, |file| file.hidden = true);
    }

    /// Sets the open flags of later opens.
    pub fn set_open_flags(&self, node: u64, flags: OpenReplyFlags) {
        self.with_file(node, |file| file.flags = flags);
    }

    pub fn set_attr_ttl(&self, node: u64, ttl: Duration) {
        self.with_file(node, |file| file.ttl = ttl);
    }

    /// How often replies have named the node, and how many of these lookups the kernel has forgotten.
    pub fn lookups(&self, node: u64) -> (u64, u64) {
        let state = self.state();
        let count = |counts: &BTreeMap<NodeId, u64>| counts.get(&NodeId(node)).copied();
        (
            count(&state.lookups_given).unwrap_or(0),
            count(&state.forgotten).unwrap_or(0),
        )
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

    /// The entry, which counts as a lookup.
    fn give(&self, node: NodeId) -> Result<EntryReply> {
        let entry = self.entry(node)?;
        *self.state().lookups_given.entry(node).or_default() += 1;
        Ok(entry)
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
