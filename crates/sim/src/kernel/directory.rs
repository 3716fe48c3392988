//! The system calls of a program, relative to its working directory.

use super::attributes::Change;
use super::cached_listing::ListedName;
use super::inode_ref::InodeRef;
use super::listing::DirectoryStream;
use super::walk::WalkMode;
use super::{File, Kernel, Quirk, RenameFlags};
use gupfs_fuse::{Errno, FileSystem, FuseTimestamp, InodeAttr, NodeId, Result};
use std::sync::Arc;

/// The working directory of a program.
pub struct Directory<F> {
    kernel: Arc<Kernel<F>>,
    inode: InodeRef,
}

impl<F: FileSystem> Directory<F> {
    pub(super) fn new(kernel: Arc<Kernel<F>>, inode: InodeRef) -> Directory<F> {
        Directory { kernel, inode }
    }

    /// The call, and then the FORGETs of inodes that it was the last to use.
    async fn run<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let result = call.await;
        self.kernel.send_forgets().await;
        result
    }

    /// Another program, whose working directory this path is.
    pub async fn enter(&self, path: &[u8]) -> Result<Directory<F>> {
        self.run(async {
            let inode = self
                .kernel
                .walk(&self.inode, path, WalkMode::FOLLOW)
                .await?;
            self.kernel.check_search(&inode).await?;
            Ok(Directory::new(self.kernel.clone(), inode))
        })
        .await
    }

    /// getcwd(3), from the root of the mount.
    ///
    /// # Errors
    /// ENOENT if the directory was removed, or if its name was invalidated and nobody has looked it up since.
    pub fn path(&self) -> Result<Vec<u8>> {
        let state = self.kernel.state();
        let node = self.inode.node();
        if node == NodeId::ROOT {
            return Ok(b"/".to_vec());
        }
        let has_path =
            state.has_path(node) || self.kernel.has_quirk(Quirk::WorkingDirectoriesKeepPath);
        if state.node(node)?.dead || !has_path {
            return Err(Errno::ENOENT);
        }
        let mut names = Vec::new();
        let mut at = node;
        while let Some((parent, name)) = state.node(at)?.place.clone() {
            names.push(name);
            at = parent;
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        Ok(path)
    }

    pub async fn stat(&self, path: &[u8]) -> Result<InodeAttr> {
        let mode = WalkMode::FOLLOW;
        self.run(self.kernel.stat(&self.inode, path, mode)).await
    }

    pub async fn lstat(&self, path: &[u8]) -> Result<InodeAttr> {
        let mode = WalkMode::NO_FOLLOW;
        self.run(self.kernel.stat(&self.inode, path, mode)).await
    }

    /// open(2): the program's O_… flags, and the permissions of a new file.
    pub async fn open(&self, path: &[u8], flags: libc::c_int, mode: u32) -> Result<File<F>> {
        let flags = flags as u32;
        self.run(self.kernel.open(&self.inode, path, flags, mode))
            .await
    }

    pub async fn mkdir(&self, path: &[u8], mode: u32) -> Result<()> {
        self.run(self.kernel.mkdir(&self.inode, path, mode)).await
    }

    pub async fn symlink(&self, target: &[u8], path: &[u8]) -> Result<()> {
        self.run(self.kernel.symlink(&self.inode, target, path))
            .await
    }

    pub async fn readlink(&self, path: &[u8]) -> Result<Vec<u8>> {
        self.run(self.kernel.link_target(&self.inode, path)).await
    }

    pub async fn link(&self, path: &[u8], new: &[u8]) -> Result<()> {
        self.run(self.kernel.link(&self.inode, path, new)).await
    }

    pub async fn unlink(&self, path: &[u8]) -> Result<()> {
        self.run(self.kernel.unlink(&self.inode, path)).await
    }

    pub async fn rmdir(&self, path: &[u8]) -> Result<()> {
        self.run(self.kernel.rmdir(&self.inode, path)).await
    }

    pub async fn rename(&self, path: &[u8], new: &[u8]) -> Result<()> {
        let flags = RenameFlags::Replace;
        self.rename_with(path, new, flags).await
    }

    /// renameat2(2).
    pub async fn rename_with(&self, path: &[u8], new: &[u8], flags: RenameFlags) -> Result<()> {
        self.run(self.kernel.rename(&self.inode, path, new, flags))
            .await
    }

    async fn change(&self, path: &[u8], change: Change) -> Result<()> {
        self.run(self.kernel.change(&self.inode, path, change))
            .await
    }

    pub async fn chmod(&self, path: &[u8], mode: u32) -> Result<()> {
        self.change(path, Change::Mode(mode)).await
    }

    pub async fn chown(&self, path: &[u8], uid: u32, gid: u32) -> Result<()> {
        self.change(path, Change::Owner { uid, gid }).await
    }

    pub async fn truncate(&self, path: &[u8], size: u64) -> Result<()> {
        self.change(path, Change::Size(size)).await
    }

    /// utimensat(2); None sets both times to the server's clock.
    pub async fn set_times(
        &self,
        path: &[u8],
        times: Option<(FuseTimestamp, FuseTimestamp)>,
    ) -> Result<()> {
        let change = match times {
            Some((atime, mtime)) => Change::Times { atime, mtime },
            None => Change::TimesNow,
        };
        self.change(path, change).await
    }

    /// The access ACL, in the form of getxattr(2); None if the file has none.
    pub async fn access_acl(&self, path: &[u8]) -> Result<Option<Vec<u8>>> {
        self.run(self.kernel.access_acl(&self.inode, path)).await
    }

    pub async fn open_directory(&self, path: &[u8]) -> Result<DirectoryStream<F>> {
        self.run(self.kernel.open_directory(&self.inode, path))
            .await
    }

    /// All names of a directory, without "." and "..".
    pub async fn list(&self, path: &[u8]) -> Result<Vec<ListedName>> {
        let stream = self.open_directory(path).await?;
        let mut names = Vec::new();
        let listed = loop {
            match stream.read().await {
                Ok(some) if some.is_empty() => break Ok(names),
                Ok(some) => names.extend(some),
                Err(errno) => break Err(errno),
            }
        };
        stream.close();
        let is_dot = |listed: &ListedName| matches!(listed.name.as_slice(), b"." | b"..");
        let listed = listed.map(|mut names| {
            names.retain(|name| !is_dot(name));
            names
        });
        self.run(async { listed }).await
    }

    /// Mounts another file system on a directory.
    pub async fn cover(&self, path: &[u8]) -> Result<()> {
        self.run(async {
            let (dir, name) = self.kernel.walk_parent(&self.inode, path).await?;
            let found = self.kernel.resolve(&dir, &name, false).await?;
            let key = (dir.node(), name);
            let covered = self.kernel.state().cover(&key);
            drop(found);
            covered
        })
        .await
    }

    /// Whether another file system is mounted there. The walk revalidates the path.
    pub async fn is_covered(&self, path: &[u8]) -> bool {
        let covered = self.run(async {
            let (dir, name) = self.kernel.walk_parent(&self.inode, path).await?;
            self.kernel.resolve(&dir, &name, false).await?;
            Ok(self.kernel.state().is_covered(&(dir.node(), name)))
        });
        covered.await.unwrap_or(false)
    }
}
