//! rename(2) and renameat2(2).

use super::Kernel;
use super::dentry::DentryKey;
use super::inode_ref::InodeRef;
use gupfs_fuse::op::{self, EntryName};
use gupfs_fuse::{Errno, FileSystem, NodeId, Result};
use std::sync::Arc;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};

/// The flags of renameat2(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RenameFlags {
    #[default]
    Replace,
    NoReplace,
    Exchange,
}

impl RenameFlags {
    fn bits(self) -> u32 {
        match self {
            RenameFlags::Replace => 0,
            RenameFlags::NoReplace => libc::RENAME_NOREPLACE,
            RenameFlags::Exchange => libc::RENAME_EXCHANGE,
        }
    }
}

/// Locks of inodes, each once, in one order for all programs.
async fn lock_all(inodes: &[&InodeRef]) -> Vec<OwnedRwLockWriteGuard<()>> {
    let mut locks: Vec<(NodeId, Arc<RwLock<()>>)> = Vec::new();
    for inode in inodes {
        locks.push((inode.node(), inode.lock()));
    }
    locks.sort_by_key(|(node, _)| *node);
    locks.dedup_by_key(|(node, _)| *node);
    let mut guards = Vec::new();
    for (_, lock) in locks {
        guards.push(lock.write_owned().await);
    }
    guards
}

impl<F: FileSystem> Kernel<F> {
    /// Holds the locks of both directories, and of the inodes that are not directories.
    pub(super) async fn rename(
        &self,
        start: &InodeRef,
        path: &[u8],
        new: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        let (old_dir, old_name) = self.walk_parent(start, path).await?;
        let (new_dir, new_name) = self.walk_parent(start, new).await?;
        let _one_rename = match old_dir.node() == new_dir.node() {
            true => None,
            false => Some(self.renames.lock().await),
        };
        let _directories = lock_all(&[&old_dir, &new_dir]).await;
        let moved = self.look_up(&old_dir, &old_name, false).await?;
        let exchanges = flags == RenameFlags::Exchange;
        // The target of a rename is always looked up.
        let target = match self.look_up(&new_dir, &new_name, !exchanges).await {
            Ok(_) if flags == RenameFlags::NoReplace => return Err(Errno::EEXIST),
            Ok(target) => Some(target),
            Err(Errno::ENOENT) if !exchanges => None,
            Err(errno) => return Err(errno),
        };
        let (from, to) = ((old_dir.node(), old_name), (new_dir.node(), new_name));
        if target
            .as_ref()
            .is_some_and(|target| target.node() == moved.node())
        {
            return Ok(()); // two names of one file
        }
        self.check_rename(&from, &to, &moved, target.as_ref(), exchanges)?;
        let inodes = [Some(&moved), target.as_ref()];
        let files: Vec<&InodeRef> = inodes
            .into_iter()
            .flatten()
            .filter(|inode| !inode.is_directory())
            .collect();
        let _files = lock_all(&files).await;
        let request = op::Rename {
            name: EntryName::new(from.1.as_slice()),
            new_directory: to.0,
            new_name: EntryName::new(to.1.as_slice()),
            flags: flags.bits(),
        };
        let reply = self.fs.rename(self.call(from.0), request);
        let reply = self.wait_reply(reply).await;
        self.apply_rename(&from, &to, &moved, target.as_ref(), exchanges, reply)
    }

    fn check_rename(
        &self,
        from: &DentryKey,
        to: &DentryKey,
        moved: &InodeRef,
        target: Option<&InodeRef>,
        exchanges: bool,
    ) -> Result<()> {
        self.check_uncovered(from)?;
        self.check_uncovered(to)?;
        let into_itself = self.state().is_ancestor(moved.node(), to.0);
        if moved.is_directory() && into_itself {
            return Err(Errno::EINVAL);
        }
        let Some(target) = target else {
            return Ok(());
        };
        if self.state().is_ancestor(target.node(), from.0) {
            return match exchanges {
                true => Err(Errno::EINVAL),
                false => Err(Errno::ENOTEMPTY),
            };
        }
        if exchanges {
            return Ok(());
        }
        match (moved.is_directory(), target.is_directory()) {
            (true, false) => Err(Errno::ENOTDIR),
            (false, true) => Err(Errno::EISDIR),
            _ => Ok(()),
        }
    }

    fn apply_rename(
        &self,
        from: &DentryKey,
        to: &DentryKey,
        moved: &InodeRef,
        target: Option<&InodeRef>,
        exchanges: bool,
        reply: Result<()>,
    ) -> Result<()> {
        let mut state = self.state();
        match reply {
            Err(Errno::EINTR | Errno::ENOENT) => {
                // The rename may have happened.
                state.expire_dentry(from);
                state.expire_dentry(to);
            }
            Err(_) => {}
            Ok(()) => {
                state.node_mut(moved.node())?.invalidate_times();
                state.note_directory_change(from.0);
                if from.0 != to.0 {
                    state.note_directory_change(to.0);
                }
                match target {
                    Some(target) if exchanges => {
                        state.node_mut(target.node())?.invalidate_times();
                        state.exchange_dentries(from, to);
                    }
                    target => {
                        if let Some(target) = target {
                            state.note_unlink(target.node())?;
                            let known = state.node_mut(target.node())?;
                            known.dead = known.is_directory();
                        }
                        state.move_dentry(from, to);
                    }
                }
            }
        }
        reply
    }
}
