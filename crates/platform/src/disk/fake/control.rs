//! `FakeDisk`: the operations of a test on a disk: crash it, fill it, damage it, count its calls.

use super::calls::{CallKind, Counters, Death};
use super::content::Content;
use super::dirs::FakeTree;
use super::options::FakeOptions;
use super::state::State;
use super::tree::{Node, ROOT, Tree};
use super::write_errors::WriteErrors;
use crate::random::fake::FakeRandom;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

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

    /// The whole tree, for the current process.
    ///
    /// # Panics
    /// When the process is dead.
    pub(in crate::disk) fn tree(&self) -> FakeTree {
        let state = self.0.lock();
        assert!(
            !state.dead,
            "the process is dead: crash or restart it first"
        );
        let known = state.write_errors.known_to_new_descriptor();
        FakeTree::root(Arc::clone(&self.0), state.instance, known)
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

    /// Flips a bit of synced bytes of a file, in memory and on the disk: they rot. Returns false if the file has no data there, or newer bytes
    /// that are not synced.
    pub fn rot(&self, path: &str, offset: u64, bit: u8) -> bool {
        let mut rotten = false;
        self.with_content(path, |content| rotten = content.rot(offset, bit));
        rotten
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
