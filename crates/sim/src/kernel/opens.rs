//! open(2) with all its flags, and close(2).

use super::attributes::{Change, OWNER};
use super::files::has_flag;
use super::inode_ref::InodeRef;
use super::names::UMASK;
use super::walk::{SYMLINKS_MAX, WalkMode};
use super::{File, Kernel, Quirk};
use gupfs_fuse::op::{self, EntryName};
use gupfs_fuse::{
    Errno, FileSystem, InitFlags, NodeId, OpenFlags, OpenReply, OpenReplyFlags, ReleaseFlags,
    Result,
};
use libc::{O_CREAT, O_DIRECTORY, O_EXCL, O_NOCTTY, O_NOFOLLOW, O_TMPFILE, O_TRUNC};
use std::sync::Arc;

/// The kind of a regular file.
const REGULAR: u32 = 0o100_000;

/// What a path leads to.
enum Target<F> {
    Opened(File<F>),
    Inode(InodeRef),
    /// A symbolic link in this directory.
    Link(InodeRef, Vec<u8>),
}

impl<F: FileSystem> Kernel<F> {
    /// `flags`: the program's O_… flags; `mode`: the permissions of a new file.
    pub(super) async fn open(
        self: &Arc<Kernel<F>>,
        start: &InodeRef,
        path: &[u8],
        flags: u32,
        mode: u32,
    ) -> Result<File<F>> {
        if has_flag(flags, O_TMPFILE & !O_DIRECTORY) {
            return self.open_unnamed(start, path, flags, mode).await;
        }
        let (mut start, mut path) = (start.clone(), path.to_vec());
        for _ in 0..=SYMLINKS_MAX {
            match self.find_to_open(&start, &path, flags, mode).await? {
                Target::Opened(file) => return Ok(file),
                Target::Inode(inode) => return self.open_inode(inode, flags).await,
                Target::Link(dir, target) => (start, path) = (dir, target),
            }
        }
        Err(Errno::ELOOP)
    }

    async fn find_to_open(
        self: &Arc<Kernel<F>>,
        start: &InodeRef,
        path: &[u8],
        flags: u32,
        mode: u32,
    ) -> Result<Target<F>> {
        let (dir, name) = self.walk_parent(start, path).await?;
        let target = match has_flag(flags, O_CREAT) {
            true => self.find_or_create(&dir, &name, flags, mode).await?,
            false => Target::Inode(self.resolve(&dir, &name, false).await?),
        };
        match target {
            Target::Inode(inode) if inode.is_symlink() => {
                if has_flag(flags, O_NOFOLLOW) {
                    return Err(Errno::ELOOP);
                }
                let target = self.link_target(&dir, &name).await?;
                Ok(Target::Link(dir, target))
            }
            Target::Inode(inode) if inode.is_directory() => Err(Errno::EISDIR),
            found => Ok(found),
        }
    }

    /// A valid dentry is opened without the directory's lock. Otherwise the lock is held exclusively until the reply to CREATE is
    /// applied; a name whose absence is cached is not looked up, except with O_EXCL.
    async fn find_or_create(
        self: &Arc<Kernel<F>>,
        dir: &InodeRef,
        name: &[u8],
        flags: u32,
        mode: u32,
    ) -> Result<Target<F>> {
        let exclusive = has_flag(flags, O_EXCL);
        if !exclusive && let Some(Ok(inode)) = self.cached(dir, name, false).await {
            return Ok(Target::Inode(inode));
        }
        let lock = dir.lock();
        let _alone = lock.write().await;
        match self.look_up(dir, name, exclusive).await {
            Err(Errno::ENOENT) => {}
            Ok(_) if exclusive => return Err(Errno::EEXIST),
            found => return found.map(Target::Inode),
        }
        if self.state().node(dir.node())?.dead {
            return Err(Errno::ENOENT);
        }
        let created = self.create(dir, name, flags, mode).await;
        created.map(Target::Opened)
    }

    /// CREATE. The reply replaces newer attributes.
    async fn create(
        self: &Arc<Kernel<F>>,
        dir: &InodeRef,
        name: &[u8],
        flags: u32,
        mode: u32,
    ) -> Result<File<F>> {
        let request_version = self.unchecked_version(Quirk::CreateHasVersion);
        let request = op::Create {
            name: EntryName::new(name),
            flags: flags & !(O_NOCTTY as u32),
            mode: REGULAR | mode,
            umask: UMASK,
            open_flags: OpenFlags::empty(),
        };
        let key = (dir.node(), name.to_vec());
        let reply = self.fs.create(self.call(dir.node()), request);
        let created = match self.wait_reply(reply).await {
            Err(Errno::EEXIST) => {
                self.state().expire_dentry(&key);
                return Err(Errno::EEXIST);
            }
            other => other?,
        };
        let inode = self
            .apply_entry(&key, &created.entry, request_version)
            .await?;
        self.state().note_directory_change(dir.node());
        self.finish_open(inode, created.opened, flags).await
    }

    /// O_TMPFILE: a file without a name. Takes no lock of the directory.
    async fn open_unnamed(
        self: &Arc<Kernel<F>>,
        start: &InodeRef,
        path: &[u8],
        flags: u32,
        mode: u32,
    ) -> Result<File<F>> {
        let dir = self.walk(start, path, WalkMode::FOLLOW).await?;
        self.check_search(&dir).await?;
        let request_version = self.unchecked_version(Quirk::CreateHasVersion);
        let request = op::Tmpfile {
            flags: flags & !(O_NOCTTY as u32),
            mode: REGULAR | mode,
            umask: UMASK,
            open_flags: OpenFlags::empty(),
        };
        let reply = self.fs.tmpfile(self.call(dir.node()), request);
        let created = match self.wait_reply(reply).await {
            Err(Errno::ENOSYS) => return Err(Errno::EOPNOTSUPP),
            other => other?,
        };
        let effect = self.state().add_inode(&created.entry, request_version)?;
        let inode = self.inode(created.entry.node)?;
        self.apply_page_effect(inode.node(), effect).await;
        self.finish_open(inode, created.opened, flags).await
    }

    async fn open_inode(self: &Arc<Kernel<F>>, inode: InodeRef, flags: u32) -> Result<File<F>> {
        self.check_permission(&inode).await?;
        let is_atomic = self.flags.contains(InitFlags::ATOMIC_O_TRUNC);
        let mut sent = flags & !((O_CREAT | O_EXCL | O_NOCTTY) as u32);
        if !is_atomic {
            sent &= !(O_TRUNC as u32);
        }
        let request = op::Open {
            flags: sent,
            open_flags: OpenFlags::empty(),
        };
        let reply = self.fs.open(self.call(inode.node()), request);
        let opened = self.wait_reply(reply).await?;
        let truncates = has_flag(flags, O_TRUNC);
        if truncates && is_atomic {
            self.state().note_truncation(inode.node())?;
        }
        let file = self.finish_open(inode.clone(), opened, flags).await?;
        if truncates && !is_atomic {
            self.change_inode(&inode, Change::Size(0), None).await?;
        }
        Ok(file)
    }

    /// What the reply to OPEN or CREATE does: an open for the page cache waits for parallel direct writes; pages are dropped.
    async fn finish_open(
        self: &Arc<Kernel<F>>,
        inode: InodeRef,
        opened: OpenReply,
        flags: u32,
    ) -> Result<File<F>> {
        let node = inode.node();
        if !opened.flags.contains(OpenReplyFlags::DIRECT_IO) {
            self.enter_page_cache(node).await?;
        }
        let keeps = opened.flags.contains(OpenReplyFlags::KEEP_CACHE)
            || self.has_quirk(Quirk::OpensKeepPages);
        let truncated = has_flag(flags, O_TRUNC) && self.flags.contains(InitFlags::ATOMIC_O_TRUNC);
        if truncated {
            self.truncate_pages(node, 0).await;
        } else if !keeps || self.has_quirk(Quirk::OpensDropPages) {
            self.drop_pages(node, 0, u64::MAX).await;
        }
        Ok(File::new(self.clone(), inode, opened, flags))
    }

    /// Waits until the parallel direct writes in progress are done; later writes run one at a time.
    pub(super) async fn enter_page_cache(&self, node: NodeId) -> Result<()> {
        if !self.has_quirk(Quirk::OpensDoNotStopParallelWrites) {
            self.state().node_mut(node)?.io.cached += 1;
        }
        loop {
            let done = self.state().node(node)?.io.done.clone();
            let done = done.notified();
            if self.try_enter_page_cache(node)? {
                return Ok(());
            }
            done.await;
        }
    }

    fn try_enter_page_cache(&self, node: NodeId) -> Result<bool> {
        let mut state = self.state();
        let io = &mut state.node_mut(node)?.io;
        let alone = io.parallel_writes == 0;
        if alone && self.has_quirk(Quirk::OpensDoNotStopParallelWrites) {
            io.cached += 1;
        }
        Ok(alone)
    }
}

impl<F: FileSystem> File<F> {
    /// close(2): the program gets the result of FLUSH, and does not wait for RELEASE, which also releases a flock.
    pub async fn close(self) -> Result<()> {
        let flocked = self.program.lock().flock;
        if flocked && self.kernel.has_quirk(Quirk::FlockUnlockedBeforeRelease) {
            self.unlock_flock().await?;
        }
        let flushed = self.flush().await;
        let flags = match flocked && !self.kernel.has_quirk(Quirk::FlockReleaseNotReported) {
            true => ReleaseFlags::FLOCK_UNLOCK,
            false => ReleaseFlags::empty(),
        };
        tokio::spawn(self.release(flags));
        flushed
    }

    async fn flush(&self) -> Result<()> {
        let kernel = &self.kernel;
        self.write_back().await?;
        if self.reply_flags.contains(OpenReplyFlags::NOFLUSH) {
            return Ok(());
        }
        let flush = op::Flush {
            fh: self.fh,
            lock_owner: match kernel.has_quirk(Quirk::FlushWithoutOwner) {
                true => gupfs_fuse::LockOwner(0),
                false => OWNER,
            },
        };
        let reply = kernel.fs.flush(kernel.call(self.inode.node()), flush);
        match kernel.wait_reply(reply).await {
            Err(Errno::ENOSYS) => Ok(()),
            other => other,
        }
    }

    async fn release(self, flags: ReleaseFlags) {
        let File {
            kernel,
            inode,
            fh,
            reply_flags,
            flags: open_flags,
            program,
        } = self;
        let is_cached = !reply_flags.contains(OpenReplyFlags::DIRECT_IO);
        if (is_cached || program.lock().mapped.is_some())
            && let Ok(node) = kernel.state().node_mut(inode.node())
        {
            node.io.cached -= 1;
        }
        let release = op::Release {
            fh,
            open_flags,
            flags,
            lock_owner: OWNER,
        };
        let reply = kernel.fs.release(kernel.call(inode.node()), release);
        // The program does not learn the result.
        let _ = kernel.wait_reply(reply).await;
        drop(inode);
        kernel.send_forgets().await;
    }
}
