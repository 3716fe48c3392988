//! The handles for the code under test: a tree, a file, a lock of one process.

use super::content::Survival;
use super::control::CallKind;
use super::state::{FileState, Instance, State, errno};
use super::tree::Node;
use crate::disk::{
    Advice, DiskEntry, DiskErrorKind, DiskFile, DiskLock, DiskSpace, DiskStat, EntryKind,
    FileSource, LockSource, OnCacheMiss, OpenHow, Result,
};
use bytes::BytesMut;
use parking_lot::Mutex;
use std::io::IoSlice;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

#[derive(Clone)]
pub(crate) struct FakeTree {
    state: Arc<Mutex<State>>,
    instance: Instance,
    /// Path from the disk's root; empty for the root itself.
    base: Arc<str>,
    /// Number of write errors of the disk that this descriptor has reported.
    known_errors: Arc<AtomicU64>,
}

#[derive(Clone)]
pub(crate) struct FakeFile {
    state: Arc<Mutex<State>>,
    instance: Instance,
    id: u64,
    path: Arc<str>,
    write: bool,
    /// Number of write errors of the file that this descriptor has reported.
    known_errors: Arc<AtomicU64>,
    _open: Arc<()>,
}

pub(crate) struct FakeLock {
    state: Arc<Mutex<State>>,
    instance: Instance,
    key: (u64, String),
}

impl Drop for FakeLock {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if state.locks.get(&self.key) == Some(&self.instance) {
            state.locks.remove(&self.key);
        }
    }
}

/// Yields to other tasks at random, if the options say so.
async fn pause(state: &Mutex<State>) {
    let yields = {
        let state = state.lock();
        state.options.yields && state.random.one_in(2)
    };
    if yields {
        tokio::task::yield_now().await;
    }
}

impl FakeTree {
    pub fn root(state: Arc<Mutex<State>>, instance: Instance, known: u64) -> FakeTree {
        FakeTree {
            state,
            instance,
            base: "".into(),
            known_errors: Arc::new(AtomicU64::new(known)),
        }
    }

    /// A call on names: begins the call, runs `run` with the directory at which this tree begins, and ends the call.
    async fn call<T>(
        &self,
        op: &'static str,
        path: &str,
        run: impl FnOnce(&mut State, u64) -> Result<T>,
    ) -> Result<T> {
        crate::disk::check_path(path);
        pause(&self.state).await;
        let mut state = self.state.lock();
        let fate = state.begin_call(self.instance, CallKind::Name, op, path)?;
        let base = state.dir_of(&self.base)?;
        let done = run(&mut state, base)?;
        state.end_call(fate, op, path, done)
    }

    pub async fn subdirectory(&self, dir: &str) -> Result<FakeTree> {
        let op = "open the directory";
        let known = self
            .call(op, dir, |state, base| {
                state.dir(base, dir, op)?;
                Ok(state.write_errors.known_to_new_descriptor())
            })
            .await?;
        let base = match (&*self.base, dir) {
            (base, ".") => base.into(),
            ("", dir) => dir.into(),
            (base, dir) => format!("{base}/{dir}").into(),
        };
        Ok(FakeTree {
            base,
            known_errors: Arc::new(AtomicU64::new(known)),
            ..self.clone()
        })
    }

    pub async fn open(&self, path: &str, how: OpenHow) -> Result<DiskFile> {
        let op = "open";
        let (id, open, known) = self
            .call(op, path, |state, base| {
                let (dir, name) = state.parent(base, path, op)?;
                let id = match state.tree.get(dir, name) {
                    Some(_) if how.create && how.exclusive => {
                        return Err(errno(op, path, libc::EEXIST));
                    }
                    Some(Node::File(id)) => id,
                    Some(Node::Dir(_)) => return Err(errno(op, path, libc::EISDIR)),
                    None if !how.create => return Err(errno(op, path, libc::ENOENT)),
                    None => {
                        let stamp = state.stamp;
                        let id = state.tree.add_file((dir, name.into()), stamp);
                        let file = FileState {
                            write_errors: Default::default(),
                            content: Default::default(),
                            mtime: state.now(),
                            open: Weak::new(),
                        };
                        state.files.insert(id, file);
                        id
                    }
                };
                let known = state.files[&id].write_errors.known_to_new_descriptor();
                Ok((id, state.opened(id), known))
            })
            .await?;
        Ok(DiskFile::new(FileSource::Fake(FakeFile {
            state: Arc::clone(&self.state),
            instance: self.instance,
            id,
            path: path.into(),
            write: how.write,
            known_errors: Arc::new(AtomicU64::new(known)),
            _open: open,
        })))
    }

    pub async fn create_dir(&self, path: &str) -> Result<bool> {
        let op = "create the directory";
        self.call(op, path, |state, base| {
            let (dir, name) = state.parent(base, path, op)?;
            if state.tree.get(dir, name).is_some() {
                return Ok(false);
            }
            let stamp = state.stamp;
            state.tree.add_dir((dir, name.into()), stamp);
            Ok(true)
        })
        .await
    }

    pub async fn remove_dir(&self, path: &str) -> Result<()> {
        let op = "remove the directory";
        self.call(op, path, |state, base| {
            let (dir, name) = state.parent(base, path, op)?;
            let id = state.dir(base, path, op)?;
            if !state.tree.list(id).is_empty() {
                return Err(errno(op, path, libc::ENOTEMPTY));
            }
            let stamp = state.stamp;
            state.tree.remove((dir, name.into()), stamp);
            Ok(())
        })
        .await
    }

    pub async fn remove_file(&self, path: &str) -> Result<()> {
        let op = "remove";
        self.call(op, path, |state, base| {
            let (dir, name) = state.parent(base, path, op)?;
            match state.tree.get(dir, name) {
                Some(Node::File(_)) => {}
                Some(Node::Dir(_)) => return Err(errno(op, path, libc::EISDIR)),
                None => return Err(errno(op, path, libc::ENOENT)),
            }
            let stamp = state.stamp;
            state.tree.remove((dir, name.into()), stamp);
            Ok(())
        })
        .await
    }

    pub async fn rename(&self, from: &str, to: &str) -> Result<()> {
        let op = "rename";
        crate::disk::check_path(to);
        self.call(op, from, |state, base| {
            let (from_dir, from_name) = state.parent(base, from, op)?;
            let (to_dir, to_name) = state.parent(base, to, op)?;
            let Some(node) = state.tree.get(from_dir, from_name) else {
                return Err(errno(op, from, libc::ENOENT));
            };
            match (node, state.tree.get(to_dir, to_name)) {
                (Node::File(_), Some(Node::Dir(_))) => return Err(errno(op, to, libc::EISDIR)),
                (Node::Dir(_), Some(Node::File(_))) => return Err(errno(op, to, libc::ENOTDIR)),
                (Node::Dir(_), Some(Node::Dir(id))) if !state.tree.list(id).is_empty() => {
                    return Err(errno(op, to, libc::ENOTEMPTY));
                }
                _ => {}
            }
            let (from, to) = ((from_dir, from_name.into()), (to_dir, to_name.into()));
            if from != to {
                let stamp = state.stamp;
                state.tree.rename(from, to, node, stamp);
            }
            Ok(())
        })
        .await
    }

    pub async fn list(&self, dir: &str) -> Result<Vec<DiskEntry>> {
        let op = "list";
        self.call(op, dir, |state, base| {
            let id = state.dir(base, dir, op)?;
            let entry = |(name, node): (&String, &Node)| DiskEntry {
                name: name.clone(),
                kind: match node {
                    Node::Dir(_) => EntryKind::Dir,
                    Node::File(_) => EntryKind::File,
                },
            };
            Ok(state.tree.list(id).iter().map(entry).collect())
        })
        .await
    }

    pub async fn sync_dir(&self, dir: &str) -> Result<()> {
        let op = "sync the directory";
        crate::disk::check_path(dir);
        pause(&self.state).await;
        let (fate, stamp) = {
            let mut state = self.state.lock();
            let fate = state.begin_call(self.instance, CallKind::Sync, op, dir)?;
            if state.sync_fails() {
                return Err(errno(op, dir, libc::EIO));
            }
            (fate, state.stamp)
        };
        pause(&self.state).await; // a change during this pause is not part of the sync
        let mut state = self.state.lock();
        state.check_alive(self.instance, op, dir)?;
        let base = state.dir_of(&self.base)?;
        let id = state.dir(base, dir, op)?;
        state.tree.make_durable(id, stamp);
        state.forget_unused();
        state.end_call(fate, op, dir, ())
    }

    pub async fn syncfs(&self) -> Result<()> {
        let op = "sync the file system of";
        pause(&self.state).await;
        let (fate, stamp, fails) = {
            let mut state = self.state.lock();
            let fate = state.begin_call(self.instance, CallKind::Sync, op, ".")?;
            let fails = state.fail_sync_at == Some(state.counters.syncs);
            (fate, state.stamp, fails)
        };
        pause(&self.state).await; // a change during this pause is not part of the sync
        let mut state = self.state.lock();
        state.check_alive(self.instance, op, ".")?;
        if fails {
            let random = state.random.clone();
            for file in state.files.values_mut() {
                file.content.lose(stamp, Survival::random(&random), &random);
            }
            return Err(errno(op, ".", libc::EIO));
        }
        for file in state.files.values_mut() {
            file.content.make_durable(stamp);
        }
        state.tree.make_all_durable(stamp);
        state.forget_unused();
        if state.write_errors.report_to(&self.known_errors) && state.options.syncfs_reports_errors {
            return Err(errno(op, ".", libc::EIO));
        }
        state.end_call(fate, op, ".", ())
    }

    pub fn syncfs_reports_errors(&self) -> bool {
        self.state.lock().options.syncfs_reports_errors
    }

    pub async fn stat(&self, path: &str) -> Result<Option<DiskStat>> {
        let op = "stat";
        let found = self
            .call(op, path, |state, base| {
                if path == "." {
                    return Ok(Some(dir_stat(state)));
                }
                let (dir, name) = state.parent(base, path, op)?;
                Ok(match state.tree.get(dir, name) {
                    Some(Node::File(id)) => Some(stat_of(state, id)),
                    Some(Node::Dir(_)) => Some(dir_stat(state)),
                    None => None,
                })
            })
            .await;
        match found {
            Err(error) if error.kind == DiskErrorKind::NotFound => Ok(None),
            found => found,
        }
    }

    pub async fn space(&self) -> Result<DiskSpace> {
        self.call("get the free space of", ".", |state, _| {
            Ok(DiskSpace {
                volume: state.volume,
                total: state.options.capacity,
                free: state.free(),
                available: state.free(),
                inodes_total: u64::from(u32::MAX),
                inodes_free: u64::from(u32::MAX) - state.files.len() as u64,
            })
        })
        .await
    }

    pub fn page_cache_id(&self) -> Result<u64> {
        let state = self.state.lock();
        state.check_alive(self.instance, "get the mount of", ".")?;
        Ok(1 + state.crashes)
    }

    pub async fn lock_exclusive(&self, path: &str) -> Result<DiskLock> {
        let op = "lock";
        self.open(path, OpenHow::write().create()).await?;
        let place = self
            .call(op, path, |state, base| {
                let (dir, name) = state.parent(base, path, op)?;
                let place = (dir, name.to_owned());
                if let Some(holder) = state.locks.get(&place) {
                    let pid = DiskErrorKind::Locked(Some(*holder as u32));
                    return Err(errno(op, path, libc::EAGAIN).with_kind(pid));
                }
                state.locks.insert(place.clone(), self.instance);
                Ok(place)
            })
            .await?;
        Ok(DiskLock::new(LockSource::Fake {
            _lock: FakeLock {
                state: Arc::clone(&self.state),
                instance: self.instance,
                key: place,
            },
        }))
    }
}

fn stat_of(state: &State, id: u64) -> DiskStat {
    let file = &state.files[&id];
    DiskStat {
        len: file.content.len(),
        allocated: file.content.allocated(),
        mtime: file.mtime,
    }
}

fn dir_stat(state: &State) -> DiskStat {
    DiskStat {
        len: 0,
        allocated: 0,
        mtime: state.now(),
    }
}

impl FakeFile {
    async fn call<T>(
        &self,
        kind: CallKind,
        op: &'static str,
        run: impl FnOnce(&mut State, u64) -> Result<T>,
    ) -> Result<T> {
        pause(&self.state).await;
        let mut state = self.state.lock();
        let fate = state.begin_call(self.instance, kind, op, &self.path)?;
        let done = run(&mut state, self.id)?;
        state.end_call(fate, op, &self.path, done)
    }

    /// A call that changes the file.
    async fn change(
        &self,
        op: &'static str,
        run: impl FnOnce(&mut State, u64) -> Result<()>,
    ) -> Result<()> {
        self.call(CallKind::Write, op, |state, id| {
            if !self.write {
                return Err(errno(op, &self.path, libc::EBADF));
            }
            let now = state.now();
            let before = state.files[&id].content.allocated();
            let done = run(state, id);
            let file = state.files.get_mut(&id).expect("an open file");
            file.mtime = now;
            state.used = state.used - before + file.content.allocated();
            done
        })
        .await
    }

    pub async fn read_at(
        &self,
        buf: &mut [u8],
        offset: u64,
        _on_miss: OnCacheMiss,
    ) -> Result<usize> {
        self.call(CallKind::Read, "read", |state, id| {
            Ok(state.files[&id].content.read(buf, offset))
        })
        .await
    }

    pub async fn read_owned<B>(
        &self,
        mut buf: B,
        offset: u64,
        on_miss: OnCacheMiss,
    ) -> Result<(B, usize)>
    where
        B: AsMut<[u8]> + Send + 'static,
    {
        let got = self.read_at(buf.as_mut(), offset, on_miss).await?;
        Ok((buf, got))
    }

    pub async fn read_append(
        &self,
        mut buf: BytesMut,
        len: usize,
        offset: u64,
        on_miss: OnCacheMiss,
    ) -> Result<BytesMut> {
        let had = buf.len();
        buf.resize(had + len, 0);
        let got = self.read_at(&mut buf[had..], offset, on_miss).await?;
        buf.truncate(had + got);
        Ok(buf)
    }

    pub async fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let op = "write";
        self.change(op, |state, id| {
            let stamp = state.stamp;
            let cost = state.files[&id].content.cost(offset, bytes.len() as u64);
            let fits = state.check_space(cost);
            let content = &mut state.files.get_mut(&id).expect("an open file").content;
            match fits {
                Ok(()) => content.write(bytes, offset, stamp),
                Err(free) => {
                    // As the kernel: it writes the part that fits, and then returns the error.
                    let mut some = bytes.len() as u64;
                    while some > 0 && content.cost(offset, some) > free {
                        some /= 2;
                    }
                    content.write(&bytes[..some as usize], offset, stamp);
                    return Err(errno(op, &self.path, libc::ENOSPC));
                }
            }
            Ok(())
        })
        .await
    }

    pub async fn write_vectored_at(&self, parts: &[IoSlice<'_>], offset: u64) -> Result<()> {
        let whole: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        self.write_at(&whole, offset).await
    }

    pub async fn sync_data(&self) -> Result<()> {
        let op = "sync";
        pause(&self.state).await;
        let (fate, stamp, fails) = {
            let mut state = self.state.lock();
            let fate = state.begin_call(self.instance, CallKind::Sync, op, &self.path)?;
            let fails = state.sync_fails();
            (fate, state.stamp, fails)
        };
        pause(&self.state).await; // a write during this pause is not part of the sync
        let mut state = self.state.lock();
        state.check_alive(self.instance, op, &self.path)?;
        let random = state.random.clone();
        let content = &mut state.files.get_mut(&self.id).expect("an open file").content;
        if fails {
            content.lose(stamp, Survival::random(&random), &random);
            return Err(errno(op, &self.path, libc::EIO));
        }
        content.make_durable(stamp);
        let failures = &mut state
            .files
            .get_mut(&self.id)
            .expect("an open file")
            .write_errors;
        if failures.report_to(&self.known_errors) {
            return Err(errno(op, &self.path, libc::EIO));
        }
        state.end_call(fate, op, &self.path, ())
    }

    pub async fn sync_all(&self) -> Result<()> {
        self.sync_data().await
    }

    pub async fn stat(&self) -> Result<DiskStat> {
        self.call(CallKind::Name, "stat", |state, id| Ok(stat_of(state, id)))
            .await
    }

    pub async fn set_len(&self, len: u64) -> Result<()> {
        self.change("set the length of", |state, id| {
            let stamp = state.stamp;
            let file = state.files.get_mut(&id).expect("an open file");
            file.content.set_len(len, stamp);
            Ok(())
        })
        .await
    }

    pub async fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.reserve(offset, len, true).await
    }

    pub async fn allocate_keeping_len(&self, offset: u64, len: u64) -> Result<()> {
        self.reserve(offset, len, false).await
    }

    async fn reserve(&self, offset: u64, len: u64, grow: bool) -> Result<()> {
        let op = "allocate";
        if len == 0 {
            return Ok(());
        }
        self.change(op, |state, id| {
            let stamp = state.stamp;
            let cost = state.files[&id].content.cost(offset, len);
            if state.check_space(cost).is_err() {
                return Err(errno(op, &self.path, libc::ENOSPC));
            }
            let content = &mut state.files.get_mut(&id).expect("an open file").content;
            content.reserve(offset, len, stamp);
            if grow {
                content.grow(offset + len, stamp);
            }
            Ok(())
        })
        .await
    }

    pub async fn zero_fill(&self, offset: u64, len: u64) -> Result<()> {
        self.write_at(&vec![0; len as usize], offset).await
    }

    pub async fn zero_range(&self, offset: u64, len: u64) -> Result<()> {
        self.clear("zero", offset, len, true).await
    }

    pub async fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        self.clear("punch a hole in", offset, len, false).await
    }

    async fn clear(&self, op: &'static str, offset: u64, len: u64, keep: bool) -> Result<()> {
        self.change(op, |state, id| {
            let stamp = state.stamp;
            let content = &mut state.files.get_mut(&id).expect("an open file").content;
            content.clear(offset, len, keep, stamp);
            Ok(())
        })
        .await
    }

    pub async fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        self.call(CallKind::Read, "seek in", |state, id| {
            Ok(state.files[&id].content.seek(offset, true))
        })
        .await
    }

    pub async fn seek_hole(&self, offset: u64) -> Result<Option<u64>> {
        self.call(CallKind::Read, "seek in", |state, id| {
            Ok(state.files[&id].content.seek(offset, false))
        })
        .await
    }

    pub fn read_ahead(&self, _offset: u64, _len: u64) {}

    pub fn start_write_back(&self, _offset: u64, _len: u64) {}

    pub fn advise(&self, _offset: u64, _len: u64, _advice: Advice) -> Result<()> {
        Ok(())
    }
}
