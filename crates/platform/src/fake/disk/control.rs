//! `FakeDisk`: the operations of a test on a disk: crash it, fill it, damage it, count its calls.

use super::content::Content;
use super::handles::FakeTree;
use super::state::{State, WriteErrors};
use super::tree::{Node, ROOT, Tree};
use crate::Disk;
use crate::fake::{FakeClock, FakeRandom};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

#[derive(Clone)]
pub struct FakeOptions {
    /// Bytes of space.
    pub capacity: u64,
    /// Whether syncfs(2) reports failed writes.
    pub syncfs_reports_errors: bool,
    /// Whether calls yield to other tasks at random, before and within them. Needs no timer.
    pub yields: bool,
    /// Clock for mtimes; without one they are call counts.
    pub clock: Option<FakeClock>,
    /// Called when the process dies because of `die_at`: a test breaks its connections here, for example.
    pub on_death: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Default for FakeOptions {
    fn default() -> Self {
        FakeOptions {
            capacity: 1 << 40,
            syncfs_reports_errors: true,
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
    /// Sync of a file's data or of a directory.
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
    /// Number of syncs that failed because of `fail_sync`.
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

/// The call at which the process died because of `die_at`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Death {
    pub kind: CallKind,
    pub path: String,
}

/// The disk itself, as a test controls it.
#[derive(Clone)]
pub struct FakeDisk(Arc<Mutex<State>>);

impl FakeDisk {
    pub fn new(options: FakeOptions, seed: u64) -> FakeDisk {
        FakeDisk(Arc::new(Mutex::new(State {
            options,
            volume: seed,
            random: FakeRandom::new(seed),
            instance: 1,
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
            write_errors: WriteErrors::default(),
        })))
    }

    /// A separate disk with a copy of the current contents; no process uses it.
    pub fn copy(&self) -> FakeDisk {
        let state = self.0.lock();
        let mut copy = state.clone();
        copy.random = state.random.fork();
        copy.locks.clear();
        copy.instance += 1;
        copy.dead = false;
        FakeDisk(Arc::new(Mutex::new(copy)))
    }

    /// A handle of the current process.
    ///
    /// # Panics
    /// When the process is dead: call `crash` or `restart` first.
    pub fn disk(&self) -> Disk {
        let state = self.0.lock();
        assert!(
            !state.dead,
            "the process is dead: crash or restart it first"
        );
        let known = state.write_errors.known_to_new_descriptor();
        Disk::fake(FakeTree::root(Arc::clone(&self.0), state.instance, known))
    }

    /// Power loss and restart: unsynced changes survive in part; all handles are dead.
    pub fn crash(&self) {
        let mut state = self.0.lock();
        state.crash();
        state.crashes += 1;
        state.write_errors = WriteErrors::default();
        state.instance += 1;
        state.dead = false;
    }

    /// Kills the process, and another one may start: its handles are dead, but the page cache survives, and the kernel keeps its
    /// write errors.
    pub fn restart(&self) {
        let mut state = self.0.lock();
        state.locks.clear();
        state.die_at = None;
        state.fail_sync_at = None;
        state.instance += 1;
        state.dead = false;
        state.forget_unused();
    }

    /// From now on each call through any handle fails, until `crash` or `restart`.
    pub fn kill(&self) {
        self.0.lock().dead = true;
    }

    pub fn is_dead(&self) -> bool {
        self.0.lock().dead
    }

    /// The last call at which the process died because of `die_at`.
    pub fn died(&self) -> Option<Death> {
        self.0.lock().died.clone()
    }

    /// Kills the process at the `n`th call of that kind from now (1 is the next): before the call, or after its effect and before
    /// its result.
    pub fn die_at(&self, kind: CallKind, n: u64) {
        let mut state = self.0.lock();
        let at = state.counters.of(kind) + n;
        state.die_at = Some((kind, at));
    }

    /// Fails the `n`th sync from now (1 is the next) once: a part of the unsynced changes becomes durable and the rest never,
    /// although they can be read until a crash.
    pub fn fail_sync(&self, n: u64) {
        let mut state = self.0.lock();
        state.fail_sync_at = Some(state.counters.syncs + n);
    }

    /// Fails a write-back of everything by the kernel: a part of the unsynced changes becomes durable and the rest never,
    /// although they can be read until a crash. Each open descriptor reports the error once, at its next sync.
    pub fn fail_write_back(&self) {
        let mut state = self.0.lock();
        let stamp = state.stamp;
        state.fail_write_back(stamp);
    }

    /// Another process calls syncfs(2), which reports the write errors to it: descriptors opened from now on do not report them.
    pub fn syncfs_by_another_process(&self) {
        let mut state = self.0.lock();
        let stamp = state.stamp;
        for file in state.files.values_mut() {
            file.content.make_durable(stamp);
        }
        state.tree.make_all_durable(stamp);
        let new = AtomicU64::new(state.write_errors.known_to_new_descriptor());
        state.write_errors.report_to(&new);
    }

    pub fn set_capacity(&self, bytes: u64) {
        self.0.lock().options.capacity = bytes;
    }

    pub fn counters(&self) -> Counters {
        self.0.lock().counters
    }

    /// Flips a bit of a file, in memory and on the disk.
    ///
    /// # Panics
    /// When the file does not exist, or has no data there.
    pub fn flip_bit(&self, path: &str, offset: u64, bit: u8) {
        self.with_content(path, |content| content.flip_bit(offset, bit));
    }

    /// The current paths of all files, read without a handle.
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

    /// The current bytes of a file, read without a handle.
    ///
    /// # Panics
    /// When the file does not exist.
    pub fn bytes(&self, path: &str) -> Vec<u8> {
        self.with_content(path, |content| {
            let mut bytes = vec![0; content.len() as usize];
            content.read(&mut bytes, 0);
            bytes
        })
    }

    /// Overwrites a part of a file without a handle, durable at once: damage by another program.
    ///
    /// # Panics
    /// When the file does not exist.
    pub fn overwrite(&self, path: &str, offset: u64, bytes: &[u8]) {
        let stamp = self.0.lock().stamp;
        self.with_content(path, |content| {
            content.write(bytes, offset, stamp);
            content.make_durable(stamp);
        });
    }

    fn with_content<T>(&self, path: &str, run: impl FnOnce(&mut Content) -> T) -> T {
        let mut state = self.0.lock();
        let found = state
            .parent(ROOT, path, "find")
            .ok()
            .and_then(|(dir, name)| state.tree.get(dir, name));
        let Some(Node::File(id)) = found else {
            panic!("file '{path}' does not exist");
        };
        run(&mut state.files.get_mut(&id).expect("a named file").content)
    }
}
