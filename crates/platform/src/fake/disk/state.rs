//! All of one disk, behind one lock, and the gate every call passes.

use super::content::{Content, Mercy, Stamp};
use super::control::{CallKind, Counters, Death, FakeOptions};
use super::names::{Node, ROOT, Tree};
use crate::disk::{DiskError, DiskErrorKind, Result};
use crate::fake::FakeDice;
use gupfs_proto::Timestamp;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Which process: rises with each crash and each kill, so that handles of the dead are told from those of the living.
pub type Life = u64;

/// Failed write-backs of a file or of the whole disk, as Linux counts them (errseq).
#[derive(Clone, Copy, Default)]
pub struct Failures {
    count: u64,
    /// Some descriptor was told of the last one.
    told: bool,
}

impl Failures {
    pub fn happened(&mut self) {
        self.count += 1;
        self.told = false;
    }

    /// What a descriptor that is opened now takes for known: nothing as long as nobody was told of the last one.
    pub fn known_to_new(&self) -> u64 {
        self.count - u64::from(!self.told && self.count > 0)
    }

    /// Whether a descriptor that knows so many is to be told now.
    pub fn tell(&mut self, known: &AtomicU64) -> bool {
        let news = known.swap(self.count, Ordering::Relaxed) != self.count;
        self.told |= news;
        news
    }
}

#[derive(Clone)]
pub struct FileState {
    pub failures: Failures,
    pub content: Content,
    pub mtime: Timestamp,
    /// Who has it open; the bytes of a removed file go when nobody has.
    pub open: Weak<()>,
}

#[derive(Clone)]
pub struct State {
    pub options: FakeOptions,
    pub volume: u64,
    pub dice: FakeDice,
    pub life: Life,
    /// Power cuts so far.
    pub crashes: u64,
    pub dead: bool,
    pub stamp: Stamp,
    pub tree: Tree,
    pub files: BTreeMap<u64, FileState>,
    /// Bytes of space that all files take.
    pub used: u64,
    pub locks: BTreeMap<(u64, String), Life>,
    pub counters: Counters,
    pub die_at: Option<(CallKind, u64)>,
    pub died: Option<Death>,
    pub fail_sync_at: Option<u64>,
    /// Of the whole disk.
    pub failures: Failures,
}

/// How a call that passed the gate goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Live,
    /// Do it, then the process dies before it learns the outcome.
    DieAfter,
}

impl State {
    /// Every call passes here first: a dead process's fail; the one it was told to die at kills it, half the time
    /// before anything happened.
    pub fn enter(
        &mut self,
        life: Life,
        kind: CallKind,
        op: &'static str,
        path: &str,
    ) -> Result<Fate> {
        self.still_alive(life, op, path)?;
        self.stamp += 1;
        self.counters.count(kind);
        let due = self.die_at.is_some_and(|(of, at)| {
            self.counters.of(of) == at && (of == kind || of == CallKind::Any)
        });
        if !due {
            return Ok(Fate::Live);
        }
        self.died = Some(Death {
            kind,
            path: path.to_owned(),
        });
        if self.dice.one_in(2) {
            self.die();
            return Err(dead(op, path));
        }
        Ok(Fate::DieAfter)
    }

    fn die(&mut self) {
        self.dead = true;
        if let Some(on_death) = &self.options.on_death {
            on_death();
        }
    }

    /// Whether the sync that was just counted is the one that was told to fail.
    pub fn sync_fails(&mut self) -> bool {
        let fails = self.fail_sync_at == Some(self.counters.syncs);
        self.counters.failed_syncs += u64::from(fails);
        fails
    }

    /// The kernel writes back by itself, and fails: of what is unsynced a part reaches the platter, and the rest never will.
    pub fn fail_write_back(&mut self, stamp: Stamp) {
        let dice = self.dice.clone();
        let mut lost = false;
        for file in self.files.values_mut() {
            if file.content.is_dirty(stamp) {
                file.content.lose(stamp, Mercy::throw(&dice), &dice);
                file.failures.happened();
                lost = true;
            }
        }
        if lost {
            self.failures.happened();
        }
    }

    /// The second half of a call that gave others a turn in between: its process may have died there.
    pub fn still_alive(&self, life: Life, op: &'static str, path: &str) -> Result<()> {
        if self.dead || life != self.life {
            return Err(dead(op, path));
        }
        Ok(())
    }

    /// The end of a call that may have been told to die.
    pub fn leave<T>(&mut self, fate: Fate, op: &'static str, path: &str, done: T) -> Result<T> {
        if fate == Fate::DieAfter {
            self.die();
            return Err(dead(op, path));
        }
        Ok(done)
    }

    /// Takes `wanted` bytes of space, or says how much there is.
    pub fn room(&self, wanted: u64) -> std::result::Result<(), u64> {
        let free = self.free();
        if wanted > free { Err(free) } else { Ok(()) }
    }

    pub fn free(&self) -> u64 {
        self.options.capacity.saturating_sub(self.used)
    }

    /// Counts the space again, after files have gone.
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

    /// Walks again from the root, after a crash has changed the tree.
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
        let mercy = Mercy::throw(&self.dice);
        self.tree.crash(mercy, &self.dice);
        let named = self.tree.files();
        self.files.retain(|id, _| named.contains(id));
        for file in self.files.values_mut() {
            let mercy = Mercy::throw(&self.dice);
            file.content.crash(mercy, &self.dice);
            file.failures = Failures::default();
        }
        self.count_used();
    }

    /// Forgets files that have neither a name nor a reader.
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

pub fn errno(op: &'static str, path: &str, code: i32) -> DiskError {
    DiskError::new(op, path, io::Error::from_raw_os_error(code))
}

fn dead(op: &'static str, path: &str) -> DiskError {
    let source = io::Error::other("the process that opened it is dead");
    DiskError::new(op, path, source).with_kind(DiskErrorKind::Dead)
}
