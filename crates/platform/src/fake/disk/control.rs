//! `FakeDisk`: what a test does to a disk: crash it, fill it, break it, count its calls.

use super::content::Content;
use super::handles::FakeTree;
use super::names::{Node, ROOT, Tree};
use super::state::{Failures, State};
use crate::Disk;
use crate::fake::{FakeClock, FakeDice};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

#[derive(Clone)]
pub struct FakeOptions {
    /// Bytes of space.
    pub capacity: u64,
    /// Whether the kernel's syncfs(2) says that a write failed.
    pub sync_everything_tells: bool,
    /// Whether calls give other tasks a turn, at the dice's whim, before and within them. Needs no timer.
    pub yields: bool,
    /// Where mtimes come from; without it they count calls.
    pub clock: Option<FakeClock>,
    /// What happens in the moment in which the process dies because it was told to (`die_at`): its connections end, say.
    pub on_death: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Default for FakeOptions {
    fn default() -> Self {
        FakeOptions {
            capacity: 1 << 40,
            sync_everything_tells: true,
            yields: false,
            clock: None,
            on_death: None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallKind {
    Any,
    Read,
    Write,
    /// Of a file's data or a directory.
    Sync,
    /// Creating, renaming, removing, listing, stat, locks.
    Name,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    pub reads: u64,
    pub writes: u64,
    pub syncs: u64,
    pub names: u64,
    /// Of the syncs, those that were told to fail.
    pub failed_syncs: u64,
}

impl Counters {
    pub fn of(&self, kind: CallKind) -> u64 {
        match kind {
            CallKind::Any => self.reads + self.writes + self.syncs + self.names,
            CallKind::Read => self.reads,
            CallKind::Write => self.writes,
            CallKind::Sync => self.syncs,
            CallKind::Name => self.names,
        }
    }

    pub(super) fn count(&mut self, kind: CallKind) {
        *match kind {
            CallKind::Read => &mut self.reads,
            CallKind::Write => &mut self.writes,
            CallKind::Sync => &mut self.syncs,
            CallKind::Name | CallKind::Any => &mut self.names,
        } += 1;
    }
}

/// The call at which a process died because it was told to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Death {
    pub kind: CallKind,
    pub path: String,
}

/// The disk itself, as the laboratory sees it.
#[derive(Clone)]
pub struct FakeDisk(Arc<Mutex<State>>);

impl FakeDisk {
    pub fn new(options: FakeOptions, seed: u64) -> FakeDisk {
        FakeDisk(Arc::new(Mutex::new(State {
            options,
            volume: seed,
            dice: FakeDice::new(seed),
            life: 1,
            crashes: 0,
            dead: false,
            stamp: 0,
            tree: Tree::new(),
            files: BTreeMap::new(),
            used: 0,
            locks: BTreeMap::new(),
            counters: Counters::default(),
            die_at: None,
            died: None,
            fail_sync_at: None,
            failures: Failures::default(),
        })))
    }

    /// What it holds now, on a disk of its own, that no process uses.
    pub fn copy(&self) -> FakeDisk {
        let state = self.0.lock();
        let mut copy = state.clone();
        copy.dice = state.dice.fork();
        copy.locks.clear();
        copy.life += 1;
        copy.dead = false;
        FakeDisk(Arc::new(Mutex::new(copy)))
    }

    /// A handle of the process that lives now.
    ///
    /// # Panics
    /// When it is dead: `crash` or `restart` first.
    pub fn disk(&self) -> Disk {
        let state = self.0.lock();
        assert!(
            !state.dead,
            "the process is dead: crash or restart it first"
        );
        let known = state.failures.known_to_new();
        Disk::fake(FakeTree::root(Arc::clone(&self.0), state.life, known))
    }

    /// The power goes and comes back: what was not synced survives in part; all handles are dead.
    pub fn crash(&self) {
        let mut state = self.0.lock();
        state.crash();
        state.crashes += 1;
        state.failures = Failures::default();
        state.life += 1;
        state.dead = false;
    }

    /// The process is killed and another may start: handles are dead, the page cache is not, and the kernel knows what failed.
    pub fn restart(&self) {
        let mut state = self.0.lock();
        state.locks.clear();
        state.die_at = None;
        state.fail_sync_at = None;
        state.life += 1;
        state.dead = false;
        state.forget_unused();
    }

    /// From now on every call through any handle fails, until `crash` or `restart`.
    pub fn kill(&self) {
        self.0.lock().dead = true;
    }

    pub fn is_dead(&self) -> bool {
        self.0.lock().dead
    }

    /// Where `die_at` struck last.
    pub fn died(&self) -> Option<Death> {
        self.0.lock().died.clone()
    }

    /// Dies at the `n`th call of that kind from now (1 is the next): before it, or after it took effect and before
    /// it could be answered.
    pub fn die_at(&self, kind: CallKind, n: u64) {
        let mut state = self.0.lock();
        let at = state.counters.of(kind) + n;
        state.die_at = Some((kind, at));
    }

    /// The `n`th sync from now (1 is the next) fails once: of what was unsynced then, a part reaches the platter and
    /// the rest never will, though it can be read until a crash.
    pub fn fail_sync(&self, n: u64) {
        let mut state = self.0.lock();
        state.fail_sync_at = Some(state.counters.syncs + n);
    }

    /// The kernel writes everything back by itself, and fails: of what was unsynced a part reaches the platter and the rest
    /// never will, though it can be read until a crash. Each descriptor that is open is told once, at its next sync.
    pub fn fail_write_back(&self) {
        let mut state = self.0.lock();
        let stamp = state.stamp;
        state.fail_write_back(stamp);
    }

    /// Another process syncs the whole disk, and is told of what failed: descriptors opened from now on are not.
    pub fn another_syncs_everything(&self) {
        let mut state = self.0.lock();
        let stamp = state.stamp;
        for file in state.files.values_mut() {
            file.content.settle(stamp);
        }
        state.tree.settle_all(stamp);
        let new = AtomicU64::new(state.failures.known_to_new());
        state.failures.tell(&new);
    }

    pub fn set_capacity(&self, bytes: u64) {
        self.0.lock().options.capacity = bytes;
    }

    pub fn counters(&self) -> Counters {
        self.0.lock().counters
    }

    /// Flips a bit of a file, in memory and on the platter.
    ///
    /// # Panics
    /// When there is no such file, or no bytes there.
    pub fn rot(&self, path: &str, offset: u64, bit: u8) {
        self.with_content(path, |content| content.rot(offset, bit));
    }

    /// The paths of all files as a reader sees them now, past all handles.
    pub fn files(&self) -> Vec<String> {
        let state = self.0.lock();
        let mut found = Vec::new();
        let mut dirs = vec![(ROOT, String::new())];
        while let Some((dir, path)) = dirs.pop() {
            for (name, node) in state.tree.list(dir) {
                match node {
                    Node::Dir(id) => dirs.push((*id, format!("{path}{name}/"))),
                    Node::File(_) => found.push(format!("{path}{name}")),
                }
            }
        }
        found.sort();
        found
    }

    /// The bytes of a file as a reader sees them now, past all handles.
    ///
    /// # Panics
    /// When there is no such file.
    pub fn bytes(&self, path: &str) -> Vec<u8> {
        self.with_content(path, |content| {
            let mut bytes = vec![0; content.len() as usize];
            content.read(&mut bytes, 0);
            bytes
        })
    }

    /// Writes to a file past all handles, as somebody who does not know what he does: durable at once.
    ///
    /// # Panics
    /// When there is no such file.
    pub fn vandalize(&self, path: &str, offset: u64, bytes: &[u8]) {
        let stamp = self.0.lock().stamp;
        self.with_content(path, |content| {
            content.write(bytes, offset, stamp);
            content.settle(stamp);
        });
    }

    fn with_content<T>(&self, path: &str, run: impl FnOnce(&mut Content) -> T) -> T {
        let mut state = self.0.lock();
        let found = state
            .parent(ROOT, path, "find")
            .ok()
            .and_then(|(dir, name)| state.tree.get(dir, name));
        let Some(Node::File(id)) = found else {
            panic!("there is no file '{path}'");
        };
        run(&mut state.files.get_mut(&id).expect("a named file").content)
    }
}
