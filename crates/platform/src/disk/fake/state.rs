//! The state of one disk, behind one lock, and the checks at the beginning and end of each call.

use super::calls::{CallKind, Counters, Death};
use super::content::{Content, Stamp, Survival};
use super::options::FakeOptions;
use super::tree::{Node, ROOT, Tree};
use super::write_errors::WriteErrors;
use crate::disk::{DiskError, DiskErrorKind, DiskStat, Result};
use crate::random::fake::FakeRandom;
use gupfs_proto::Timestamp;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Weak};

/// Number of the process that uses the disk: rises with each crash and each restart, and distinguishes handles of dead processes.
pub type Instance = u64;

#[derive(Clone)]
pub struct FileState {
    pub write_errors: WriteErrors,
    pub content: Content,
    pub mtime: Timestamp,
    /// Alive while a handle has the file open; the bytes of a removed file are freed after the last handle.
    pub open: Weak<()>,
}

#[derive(Clone)]
pub struct State {
    pub options: FakeOptions,
    pub volume: u64,
    pub random: FakeRandom,
    pub instance: Instance,
    /// Number of power losses so far.
    pub crashes: u64,
    pub dead: bool,
    pub stamp: Stamp,
    pub tree: Tree,
    pub files: BTreeMap<u64, FileState>,
    /// Bytes of space that all files take.
    pub used: u64,
    pub locks: BTreeMap<(u64, String), Instance>,
    pub counters: Counters,
    pub die_at: Option<(CallKind, u64)>,
    pub died: Option<Death>,
    pub fail_sync_at: Option<u64>,
    /// Write errors of the whole disk.
    pub write_errors: WriteErrors,
}

/// How a call continues after `begin_call`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CallFate {
    Continue,
    /// Execute it; then the process dies before it gets the result.
    DieAfter,
}

impl State {
    /// Begins a call: fails it if its process is dead. At the call set by `die_at` the process dies, half of the times before the
    /// call has an effect.
    pub fn begin_call(
        &mut self,
        instance: Instance,
        kind: CallKind,
        op: &'static str,
        path: &str,
    ) -> Result<CallFate> {
        self.check_alive(instance, op, path)?;
        self.stamp += 1;
        self.counters.count(kind);
        let due = self.die_at.is_some_and(|(of, at)| {
            self.counters.of(of) == at && (of == kind || of == CallKind::Any)
        });
        if !due {
            return Ok(CallFate::Continue);
        }
        self.died = Some(Death {
            kind,
            path: path.to_owned(),
        });
        if self.random.one_in(2) {
            self.die();
            return Err(dead(op, path));
        }
        Ok(CallFate::DieAfter)
    }

    fn die(&mut self) {
        self.dead = true;
        if let Some(on_death) = &self.options.on_death {
            on_death();
        }
    }

    /// Whether the sync that was just counted is the one set by `fail_sync`.
    pub fn sync_fails(&mut self) -> bool {
        let fails = self.fail_sync_at == Some(self.counters.syncs);
        self.counters.failed_syncs += u64::from(fails);
        fails
    }

    /// A failed write-back by the kernel: a part of the unsynced changes becomes durable, and the rest never.
    pub fn fail_write_back(&mut self, stamp: Stamp) {
        let random = self.random.clone();
        let mut lost = false;
        for file in self.files.values_mut() {
            if file.content.is_dirty(stamp) {
                file.content.lose(stamp, Survival::random(&random), &random);
                file.write_errors.record();
                lost = true;
            }
        }
        if lost {
            self.write_errors.record();
        }
    }

    /// Fails the second half of a call if its process has died while the call yielded.
    pub fn check_alive(&self, instance: Instance, op: &'static str, path: &str) -> Result<()> {
        if self.dead || instance != self.instance {
            return Err(dead(op, path));
        }
        Ok(())
    }

    /// Ends a call; with `DieAfter` the process dies now.
    pub fn end_call<T>(
        &mut self,
        fate: CallFate,
        op: &'static str,
        path: &str,
        done: T,
    ) -> Result<T> {
        if fate == CallFate::DieAfter {
            self.die();
            return Err(dead(op, path));
        }
        Ok(done)
    }

    /// Checks that `wanted` bytes are free; the error is the number of free bytes.
    pub fn check_space(&self, wanted: u64) -> std::result::Result<(), u64> {
        let free = self.free();
        if wanted > free { Err(free) } else { Ok(()) }
    }

    pub fn free(&self) -> u64 {
        self.options.capacity.saturating_sub(self.used)
    }

    /// Computes the used space again, after files were removed.
    fn count_used(&mut self) {
        self.used = self
            .files
            .values()
            .map(|file| file.content.allocated())
            .sum();
    }

    pub fn now(&self) -> Timestamp {
        match &self.options.clock {
            Some(clock) => clock.now(),
            None => Timestamp::from_nanos(self.stamp as i64),
        }
    }

    pub fn file_stat(&self, id: u64) -> DiskStat {
        let file = &self.files[&id];
        DiskStat {
            len: file.content.len(),
            allocated: file.content.allocated(),
            mtime: file.mtime,
        }
    }

    pub fn dir_stat(&self) -> DiskStat {
        DiskStat {
            len: 0,
            allocated: 0,
            mtime: self.now(),
        }
    }

    /// Resolves a path from `dir` to the directory that holds its last part.
    pub fn parent<'p>(&self, dir: u64, path: &'p str, op: &'static str) -> Result<(u64, &'p str)> {
        let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut at = dir;
        for part in parents.split('/').filter(|part| !part.is_empty()) {
            at = match self.tree.get(at, part) {
                Some(Node::Dir(id)) => id,
                Some(Node::File(_)) => return Err(errno(op, path, libc::ENOTDIR)),
                None => return Err(errno(op, path, libc::ENOENT)),
            };
        }
        Ok((at, name))
    }

    pub fn dir(&self, from: u64, path: &str, op: &'static str) -> Result<u64> {
        if path == "." {
            return Ok(from);
        }
        let (dir, name) = self.parent(from, path, op)?;
        match self.tree.get(dir, name) {
            Some(Node::Dir(id)) => Ok(id),
            Some(Node::File(_)) => Err(errno(op, path, libc::ENOTDIR)),
            None => Err(errno(op, path, libc::ENOENT)),
        }
    }

    /// Resolves a path from the root again, because a crash may have changed the tree.
    pub fn dir_of(&self, path: &str) -> Result<u64> {
        if path.is_empty() {
            return Ok(ROOT);
        }
        self.dir(ROOT, path, "open the directory")
    }

    pub fn crash(&mut self) {
        self.dead = true;
        self.die_at = None;
        self.fail_sync_at = None;
        self.locks.clear();
        let survival = Survival::random(&self.random);
        self.tree.crash(survival, &self.random);
        let named = self.tree.files();
        self.files.retain(|id, _| named.contains(id));
        for file in self.files.values_mut() {
            let survival = Survival::random(&self.random);
            file.content.crash(survival, &self.random);
            file.write_errors = WriteErrors::default();
        }
        self.count_used();
    }

    /// Removes files that have neither a name nor an open handle.
    pub fn forget_unused(&mut self) {
        let named = self.tree.files();
        self.files
            .retain(|id, file| named.contains(id) || file.open.strong_count() > 0);
        self.count_used();
    }

    pub fn opened(&mut self, file: u64) -> Arc<()> {
        let state = self
            .files
            .get_mut(&file)
            .expect("a file with a name has bytes");
        match state.open.upgrade() {
            Some(open) => open,
            None => {
                let open = Arc::new(());
                state.open = Arc::downgrade(&open);
                open
            }
        }
    }
}

/// Yields to other tasks at random, if the options say so.
pub async fn pause(state: &Mutex<State>) {
    let yields = {
        let state = state.lock();
        state.options.yields && state.random.one_in(2)
    };
    if yields {
        tokio::task::yield_now().await;
    }
}

pub fn errno(op: &'static str, path: &str, code: i32) -> DiskError {
    DiskError::new(op, path, io::Error::from_raw_os_error(code))
}

fn dead(op: &'static str, path: &str) -> DiskError {
    let source = io::Error::other("the process that opened it is dead");
    DiskError::new(op, path, source).with_kind(DiskErrorKind::Dead)
}
