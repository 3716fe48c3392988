//! Open and held files by inode, and when an answer about one of the others can be believed.

use super::left::Left;
use super::state::State;
use crate::limits::STAMPS;
use crate::ranges::Ranges;
use gupfs_platform::hash::Map;
use gupfs_proto::{Attr, InodeId};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One inode's part. Order of locks: `ranges`, `telling`, `syncing`, then the state's own, which no await holds.
pub struct File {
    pub ino: InodeId,
    pub ranges: Ranges,
    /// One conversation with the metadata server about size, content and objects at a time: its words are absolute.
    pub telling: tokio::sync::Mutex<()>,
    /// One sync of its objects at a time.
    pub syncing: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    pins: AtomicU32,
}

impl File {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

pub struct Table {
    /// Others may change what is not held here.
    shared: bool,
    files: RwLock<Map<InodeId, Arc<File>>>,
    /// When a file that shares this place was last dropped or given back, by `clock`.
    stamps: Box<[AtomicU64]>,
    /// Files dropped or given back so far.
    clock: AtomicU64,
    /// Objects of dropped files that were not synced.
    pub left: Mutex<Left>,
}

/// A moment, to tell later whether a file was dropped or given back since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment(u64);

/// Whether an answer may be passed on.
pub enum Seen {
    Sure(Attr, Option<Arc<File>>),
    /// The file was held or open when we asked and is not now: the answer may be older than what it became.
    Unsure,
}

impl Table {
    pub fn new(shared: bool) -> Arc<Table> {
        Arc::new(Table {
            shared,
            files: RwLock::default(),
            stamps: (0..STAMPS).map(|_| AtomicU64::new(0)).collect(),
            clock: AtomicU64::new(0),
            left: Mutex::default(),
        })
    }

    /// The file's entry, made if there is none; it stays while the pin does.
    pub fn pin(self: &Arc<Self>, ino: InodeId) -> Pin {
        if let Some(file) = self.files.read().get(&ino) {
            return self.pinned(file);
        }
        let mut files = self.files.write();
        let file = files.entry(ino).or_insert_with(|| {
            Arc::new(File {
                ino,
                ranges: Ranges::default(),
                telling: tokio::sync::Mutex::default(),
                syncing: tokio::sync::Mutex::default(),
                state: Mutex::new(State::new(self.shared)),
                pins: AtomicU32::new(0),
            })
        });
        self.pinned(file)
    }

    /// Counted under the lock that `let_go` takes to remove, so nothing that is pinned is removed.
    fn pinned(self: &Arc<Self>, file: &Arc<File>) -> Pin {
        file.pins.fetch_add(1, Ordering::AcqRel);
        Pin {
            table: self.clone(),
            file: file.clone(),
        }
    }

    /// Pinned, if it is open or held.
    pub fn find(self: &Arc<Self>, ino: InodeId) -> Option<Pin> {
        let files = self.files.read();
        files.get(&ino).map(|file| self.pinned(file))
    }

    pub fn get(&self, ino: InodeId) -> Option<Arc<File>> {
        self.files.read().get(&ino).cloned()
    }

    /// All files, pinned, by inode.
    pub fn all(self: &Arc<Self>) -> Vec<Pin> {
        let files = self.files.read();
        let mut all: Vec<Pin> = files.values().map(|file| self.pinned(file)).collect();
        drop(files);
        all.sort_by_key(|pin| pin.ino);
        all
    }

    /// Taken before a question is sent.
    pub fn moment(&self) -> Moment {
        Moment(self.clock.load(Ordering::Acquire))
    }

    pub fn dropped_since(&self, moment: Moment, ino: InodeId) -> bool {
        self.stamp(ino).load(Ordering::Acquire) > moment.0
    }

    /// What the server answered to a question of `moment`, with what we know better laid over it.
    pub fn overlay(&self, moment: Moment, attr: Attr) -> Seen {
        if let Some(file) = self.get(attr.ino) {
            let mut state = file.state();
            state.note(attr);
            if state.counts() {
                let attr = state.overlay(attr);
                drop(state);
                return Seen::Sure(attr, Some(file));
            }
        }
        if self.dropped_since(moment, attr.ino) {
            Seen::Unsure
        } else {
            Seen::Sure(attr, None)
        }
    }

    /// What was known here counted, and does not from now on: answers to earlier questions may be older. Called before
    /// somebody can see it.
    pub fn count_no_more(&self, ino: InodeId) {
        if self.shared {
            self.stamp_now(ino);
        }
    }

    fn stamp_now(&self, ino: InodeId) {
        let now = self.clock.fetch_add(1, Ordering::AcqRel) + 1;
        self.stamp(ino).fetch_max(now, Ordering::AcqRel);
    }

    fn stamp(&self, ino: InodeId) -> &AtomicU64 {
        // Fibonacci hashing: numbers are given out in a row.
        let hash = ino.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.stamps[hash as usize % STAMPS]
    }

    fn let_go(&self, file: &File) {
        let mut files = self.files.write();
        if file.pins.load(Ordering::Acquire) > 0 {
            return;
        }
        let state = file.state();
        if state.must_stay() {
            return;
        }
        self.left.lock().add(state.unsynced(file.ino));
        // The stamp first: whoever finds the entry gone finds the stamp.
        self.stamp_now(file.ino);
        files.remove(&file.ino);
    }
}

/// Keeps a file's entry in the table.
pub struct Pin {
    table: Arc<Table>,
    file: Arc<File>,
}

impl Deref for Pin {
    type Target = File;
    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if self.file.pins.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.table.let_go(&self.file);
        }
    }
}
