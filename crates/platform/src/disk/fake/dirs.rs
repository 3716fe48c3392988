//! `FakeTree`: a directory tree as one process sees it; calls on names.

use super::calls::CallKind;
use super::content::Survival;
use super::file::FakeFile;
use super::lock::FakeLock;
use super::state::{FileState, Instance, State, errno, pause};
use super::tree::Node;
use crate::disk::path::check_path;
use crate::disk::{DiskEntry, DiskErrorKind, DiskSpace, DiskStat, EntryKind, OpenHow, Result};
use parking_lot::Mutex;
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
        check_path(path);
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

    pub async fn open(&self, path: &str, how: OpenHow) -> Result<FakeFile> {
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
        Ok(FakeFile {
            state: Arc::clone(&self.state),
            instance: self.instance,
            id,
            path: path.into(),
            write: how.write,
            known_errors: Arc::new(AtomicU64::new(known)),
            _open: open,
        })
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
        check_path(to);
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

    pub async fn exchange(&self, a: &str, b: &str) -> Result<()> {
        let op = "exchange";
        check_path(b);
        self.call(op, a, |state, base| {
            let file = |path: &str| {
                let (dir, name) = state.parent(base, path, op)?;
                match state.tree.get(dir, name) {
                    Some(node @ Node::File(_)) => Ok(((dir, name.to_owned()), node)),
                    Some(Node::Dir(_)) => Err(errno(op, path, libc::EISDIR)),
                    None => Err(errno(op, path, libc::ENOENT)),
                }
            };
            let (a, b) = (file(a)?, file(b)?);
            let stamp = state.stamp;
            state.tree.exchange(a, b, stamp);
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
        check_path(dir);
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
                    return Ok(Some(state.dir_stat()));
                }
                let (dir, name) = state.parent(base, path, op)?;
                Ok(match state.tree.get(dir, name) {
                    Some(Node::File(id)) => Some(state.file_stat(id)),
                    Some(Node::Dir(_)) => Some(state.dir_stat()),
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

    pub async fn lock_exclusive(&self, path: &str) -> Result<FakeLock> {
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
        Ok(FakeLock {
            state: Arc::clone(&self.state),
            instance: self.instance,
            key: place,
        })
    }
}
