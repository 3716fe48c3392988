//! Names in directories: mkdir, symlink, link, unlink, rmdir. Each holds the directory's lock exclusively.

use super::dentry::DentryKey;
use super::inode_ref::InodeRef;
use super::walk::WalkMode;
use super::{Kernel, Quirk};
use gupfs_fuse::op::{self, EntryName};
use gupfs_fuse::{Call, EntryReply, Errno, FileSystem, Result};

/// The umask of all programs.
pub const UMASK: u32 = 0o022;

impl<F: FileSystem> Kernel<F> {
    pub(super) async fn mkdir(&self, start: &InodeRef, path: &[u8], mode: u32) -> Result<()> {
        let (dir, name) = self.walk_parent(start, path).await?;
        self.add_name(&dir, &name, async |call, name| {
            let request = op::Mkdir {
                name,
                mode,
                umask: UMASK,
            };
            self.fs.mkdir(call, request).await
        })
        .await
    }

    pub(super) async fn symlink(&self, start: &InodeRef, target: &[u8], path: &[u8]) -> Result<()> {
        let (dir, name) = self.walk_parent(start, path).await?;
        self.add_name(&dir, &name, async |call, name| {
            let request = op::Symlink {
                name,
                target: target.into(),
            };
            self.fs.symlink(call, request).await
        })
        .await
    }

    /// link(2): also holds the lock of the file.
    pub(super) async fn link(&self, start: &InodeRef, path: &[u8], new: &[u8]) -> Result<()> {
        let target = self.walk(start, path, WalkMode::NO_FOLLOW).await?;
        let (dir, name) = self.walk_parent(start, new).await?;
        if target.is_directory() {
            return Err(Errno::EPERM);
        }
        let linked = self.add_name(&dir, &name, async |call, name| {
            let lock = target.lock();
            let _alone = lock.write().await;
            let request = op::Link {
                target: target.node(),
                name,
            };
            self.fs.link(call, request).await
        });
        let linked = linked.await;
        if linked == Err(Errno::EINTR) {
            self.state().expire_attributes(target.node());
        }
        linked
    }

    /// Adds a name that must be absent: a LOOKUP confirms that, whatever is cached. The reply replaces newer attributes.
    async fn add_name(
        &self,
        dir: &InodeRef,
        name: &[u8],
        add: impl AsyncFnOnce(Call, EntryName) -> Result<EntryReply>,
    ) -> Result<()> {
        let lock = dir.lock();
        let _alone = lock.write().await;
        match self.look_up(dir, name, true).await {
            Err(Errno::ENOENT) => {}
            Ok(_) => return Err(Errno::EEXIST),
            Err(other) => return Err(other),
        }
        if self.state().node(dir.node())?.dead {
            return Err(Errno::ENOENT);
        }
        let request_version = self.unchecked_version(Quirk::LinkHasVersion);
        let added = add(self.call(dir.node()), EntryName::new(name));
        let entry = self.wait_reply(added).await?;
        let key = (dir.node(), name.to_vec());
        let applied = self.apply_entry(&key, &entry, request_version).await;
        self.state().note_directory_change(dir.node());
        applied.map(drop)
    }

    pub(super) async fn unlink(&self, start: &InodeRef, path: &[u8]) -> Result<()> {
        let (dir, name) = self.walk_parent(start, path).await?;
        let lock = dir.lock();
        let _alone = lock.write().await;
        let inode = self.look_up(&dir, &name, false).await?;
        if inode.is_directory() {
            return Err(Errno::EISDIR);
        }
        let file = inode.lock();
        let file_alone = file.write().await;
        let key = (dir.node(), name);
        self.check_uncovered(&key)?;
        let request = op::Unlink {
            name: EntryName::new(key.1.as_slice()),
        };
        let reply = self.fs.unlink(self.call(dir.node()), request);
        self.apply_removal(&key, &inode, self.wait_reply(reply).await)?;
        drop(file_alone);
        drop(inode);
        self.state().delete_dentry(&key);
        Ok(())
    }

    pub(super) async fn rmdir(&self, start: &InodeRef, path: &[u8]) -> Result<()> {
        let (dir, name) = self.walk_parent(start, path).await?;
        let lock = dir.lock();
        let _alone = lock.write().await;
        let inode = self.look_up(&dir, &name, false).await?;
        if !inode.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        let removed = inode.lock();
        let removed_alone = removed.write().await;
        let key = (dir.node(), name);
        self.check_uncovered(&key)?;
        let request = op::Rmdir {
            name: EntryName::new(key.1.as_slice()),
        };
        let reply = self.fs.rmdir(self.call(dir.node()), request);
        self.apply_removal(&key, &inode, self.wait_reply(reply).await)?;
        {
            let mut state = self.state();
            state.drop_below(inode.node(), true);
            state.node_mut(inode.node())?.dead = true;
        }
        drop(removed_alone);
        drop(inode);
        self.state().delete_dentry(&key);
        Ok(())
    }

    /// EBUSY: a file system is mounted there.
    pub(super) fn check_uncovered(&self, key: &DentryKey) -> Result<()> {
        match self.state().is_covered(key) {
            true => Err(Errno::EBUSY),
            false => Ok(()),
        }
    }

    /// The reply to UNLINK or RMDIR. After a failure that leaves the name unknown, it has no lifetime.
    fn apply_removal(&self, key: &DentryKey, inode: &InodeRef, reply: Result<()>) -> Result<()> {
        let mut state = self.state();
        match reply {
            Ok(()) => {
                state.note_directory_change(key.0);
                state.note_unlink(inode.node())?;
                state.expire_dentry(key);
            }
            Err(Errno::EINTR | Errno::ENOENT) => state.expire_dentry(key),
            Err(_) => {}
        }
        reply
    }
}
