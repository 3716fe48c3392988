//! The file system as one mount serves it. Kernel caches are off, except for pages (see `pages`): every call arrives here, and what is
//! wrong is wrong by the fault.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fuser::{Errno, FileAttr, RenameFlags};

use crate::faults::{Fault, Switch};
use crate::pages::Kernels;
use crate::state::{Body, Old, Outcome, State};

pub struct Served {
    pub mount: usize,
    pub state: Arc<Mutex<State>>,
    pub switch: Arc<Switch>,
    pub kernels: Arc<Kernels>,
}

impl Served {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.raise_ghosts();
        state
    }

    /// Attributes as this mount sees them.
    pub(crate) fn seen(&self, state: &mut State, inode: u64) -> Outcome<FileAttr> {
        let now = state.attr(inode)?;
        let Some(old) = state.old_attrs.get(&inode) else {
            return Ok(now);
        };
        let Some(was) = old.seen_by(self.mount) else {
            return Ok(now);
        };
        let late = self.switch.is(Fault::OldFileOldAttributes) && state.is_old(inode);
        Ok(match () {
            () if late => was,
            () if self.switch.is(Fault::OldMode) => FileAttr {
                perm: was.perm,
                ..now
            },
            () if self.switch.is(Fault::SizeGoesBack) => FileAttr {
                size: was.size,
                ..now
            },
            () if self.switch.is(Fault::TimeGoesBack) => FileAttr {
                mtime: was.mtime,
                ..now
            },
            () if self.switch.is(Fault::LinkNotCounted) => FileAttr {
                nlink: was.nlink,
                ..now
            },
            () => now,
        })
    }

    /// Keeps what others go on seeing where a fault says so.
    pub(crate) fn before_change(&self, state: &mut State, inode: u64) {
        if let Ok(attr) = state.attr(inode) {
            state.old_attrs.insert(inode, Old::new(self.mount, attr));
        }
        if self.switch.is(Fault::WriteBehind) || self.switch.is(Fault::OldFileOldBytes) {
            let bytes = state.bytes(inode).cloned().unwrap_or_default();
            state.old_data.insert(inode, Old::new(self.mount, bytes));
        }
    }

    pub(crate) fn look_up(&self, parent: u64, name: &OsStr) -> Outcome<FileAttr> {
        let mut state = self.state();
        let key = (parent, name.to_owned());
        let late = self.switch.is(Fault::OldDirOldNames) && state.is_old(parent);
        if (late || self.switch.is(Fault::OldNameAfterRename))
            && let Some(was) = state
                .old_names
                .get(&key)
                .and_then(|old| old.seen_by(self.mount))
            && let Ok(attr) = self.seen(&mut state, was)
        {
            return Ok(attr);
        }
        let inode = state.find(parent, name)?;
        self.seen(&mut state, inode)
    }

    pub(crate) fn make(
        &self,
        parent: u64,
        name: &OsStr,
        body: Body,
        mode: u32,
    ) -> Outcome<FileAttr> {
        let mut state = self.state();
        if state.entries(parent)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let inode = state.add(body, mode);
        state.node(inode)?.links = 1;
        state.entries(parent)?.insert(name.to_owned(), inode);
        state.attr(inode)
    }

    pub(crate) fn remove(&self, parent: u64, name: &OsStr, directory: bool) -> Outcome<()> {
        let mut state = self.state();
        let inode = state.find(parent, name)?;
        match (directory, state.is_dir(inode)) {
            (true, false) => return Err(Errno::ENOTDIR),
            (false, true) => return Err(Errno::EISDIR),
            _ => {}
        }
        if directory && state.has_entries(inode) {
            return Err(Errno::ENOTEMPTY);
        }
        if !directory {
            if self.switch.strikes(Fault::UnlinkNotDone, 40) {
                return Ok(());
            }
            if self.switch.strikes(Fault::ResurrectedName, 20) {
                let later = Instant::now() + Duration::from_millis(5);
                state.ghosts.push((later, parent, name.to_owned(), inode));
            }
        }
        state.entries(parent)?.remove(name);
        if !directory {
            let old = Old::new(self.mount, inode);
            state.old_names.insert((parent, name.to_owned()), old);
        }
        state.unlinked(inode);
        Ok(())
    }

    pub(crate) fn move_name(
        &self,
        (from_dir, from): (u64, &OsStr),
        (to_dir, to): (u64, &OsStr),
        flags: RenameFlags,
    ) -> Outcome<()> {
        let mut state = self.state();
        let source = state.find(from_dir, from)?;
        let target = state.find(to_dir, to).ok();
        if flags.contains(RenameFlags::RENAME_EXCHANGE) {
            let target = target.ok_or(Errno::ENOENT)?;
            state.entries(to_dir)?.insert(to.to_owned(), source);
            match self.switch.strikes(Fault::HalfExchange, 5) {
                true => drop(state.entries(from_dir)?.remove(from)),
                false => drop(state.entries(from_dir)?.insert(from.to_owned(), target)),
            }
            return Ok(());
        }
        if let Some(target) = target {
            if flags.contains(RenameFlags::RENAME_NOREPLACE) {
                return Err(Errno::EEXIST);
            }
            match (state.is_dir(source), state.is_dir(target)) {
                _ if source == target => return Ok(()),
                (true, false) => return Err(Errno::ENOTDIR),
                (false, true) => return Err(Errno::EISDIR),
                (true, true) if state.has_entries(target) => return Err(Errno::ENOTEMPTY),
                _ => {}
            }
            let old = Old::new(self.mount, target);
            state.old_names.insert((to_dir, to.to_owned()), old);
        }
        // The directory may have been removed since the kernel looked.
        state.entries(to_dir)?;
        state.entries(from_dir)?.remove(from);
        if self.switch.is(Fault::NonAtomicRename) && target.is_some() {
            state.entries(to_dir)?.remove(to);
            drop(state);
            std::thread::sleep(Duration::from_micros(300));
            state = self.state();
        }
        state.entries(to_dir)?.insert(to.to_owned(), source);
        if let Some(target) = target {
            state.unlinked(target);
        }
        if self.switch.strikes(Fault::RenameLeavesSource, 40) {
            state.entries(from_dir)?.insert(from.to_owned(), source);
        }
        Ok(())
    }
}
