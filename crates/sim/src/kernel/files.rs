//! Open files: cached and direct reads, direct writes, stores through a mapping, locks.

use super::pages::PAGE;
use super::{Kernel, Quirk};
use gupfs_fuse::op::{self, FileLock, LockKind};
use gupfs_fuse::{
    Errno, FileHandle, FileSystem, InitFlags, LockFlags, LockOwner, NodeId, OpenFlags,
    OpenReplyFlags, ReleaseFlags, Result, WriteFlags,
};
use parking_lot::Mutex;
use std::sync::Arc;

/// The owner of all locks: the model has one program.
const OWNER: LockOwner = LockOwner(1);

/// An open file.
pub struct File<F> {
    kernel: Arc<Kernel<F>>,
    node: NodeId,
    fh: FileHandle,
    flags: OpenReplyFlags,
    program_state: Mutex<ProgramState>,
}

#[derive(Clone, Copy, Default)]
struct ProgramState {
    flock: bool,
    /// Whether the first page is mapped, writable.
    mapped: bool,
}

impl<F: FileSystem> Kernel<F> {
    /// `flags`: the program's O_… flags.
    pub async fn open(self: &Arc<Kernel<F>>, name: &[u8], flags: u32) -> Result<File<F>> {
        let node = self.resolve(name).await?;
        let request = op::Open {
            flags,
            open_flags: OpenFlags::empty(),
        };
        let opened = self
            .wait_reply(self.fs.open(self.call(node), request))
            .await?;
        let drops = !opened.flags.contains(OpenReplyFlags::KEEP_CACHE)
            && !self.has_quirk(Quirk::OpensKeepPages);
        if drops || self.has_quirk(Quirk::OpensDropPages) {
            self.drop_pages(node, 0, u64::MAX).await;
        }
        if !opened.flags.contains(OpenReplyFlags::DIRECT_IO) {
            self.enter_page_cache(node).await?;
        }
        Ok(File {
            kernel: self.clone(),
            node,
            fh: opened.fh,
            flags: opened.flags,
            program_state: Mutex::default(),
        })
    }

    /// Waits until the parallel direct writes in progress are done; later writes run one at a time.
    async fn enter_page_cache(&self, node: NodeId) -> Result<()> {
        if !self.has_quirk(Quirk::OpensDoNotStopParallelWrites) {
            self.state().node_mut(node)?.users.cached += 1;
        }
        loop {
            let done = self.state().node(node)?.users.done.clone();
            let done = done.notified();
            if self.try_enter_page_cache(node)? {
                return Ok(());
            }
            done.await;
        }
    }

    fn try_enter_page_cache(&self, node: NodeId) -> Result<bool> {
        let mut state = self.state();
        let users = &mut state.node_mut(node)?.users;
        let alone = users.parallel_writes == 0;
        if alone && self.has_quirk(Quirk::OpensDoNotStopParallelWrites) {
            users.cached += 1;
        }
        Ok(alone)
    }

    pub(super) async fn flush_and_release(
        &self,
        node: NodeId,
        fh: FileHandle,
        flags: ReleaseFlags,
    ) -> Result<()> {
        self.write_back_all(node).await;
        let flush = op::Flush {
            fh,
            lock_owner: match self.has_quirk(Quirk::FlushWithoutOwner) {
                true => LockOwner(0),
                false => OWNER,
            },
        };
        let flushed = self.wait_reply(self.fs.flush(self.call(node), flush)).await;
        let release = op::Release {
            fh,
            open_flags: 0,
            flags,
            lock_owner: OWNER,
        };
        let released = self
            .wait_reply(self.fs.release(self.call(node), release))
            .await;
        // close(2) returns the result of FLUSH alone.
        match (flushed, released) {
            (Ok(()) | Err(Errno::ENOSYS), _) => Ok(()),
            (Err(errno), _) => Err(errno),
        }
    }
}

impl<F: FileSystem> File<F> {
    fn is_direct(&self) -> bool {
        self.flags.contains(OpenReplyFlags::DIRECT_IO)
    }

    /// Reads the byte at an offset.
    pub async fn read(&self, at: u64) -> Result<Option<u8>> {
        if !self.is_direct() {
            return self.kernel.read_cached(self.node, self.fh, at).await;
        }
        let kernel = &self.kernel;
        if !kernel.has_quirk(Quirk::DirectReadsIgnoreDirtyPages) {
            kernel.write_back_all(self.node).await;
        }
        if kernel.has_quirk(Quirk::DirectReadsCutAtCachedSize)
            && at >= kernel.state().node(self.node)?.attr.size
        {
            return Ok(None);
        }
        let read = kernel.read_from_server(self.node, self.fh, at, 1, Some(OWNER));
        Ok(read.await?.first().copied())
    }

    /// Reads through the page cache, also if the file is open for direct I/O.
    pub async fn splice(&self) -> Result<()> {
        let kernel = &self.kernel;
        if self.is_direct() && kernel.has_quirk(Quirk::SpliceBypassesPageCache) {
            let read = kernel.read_from_server(self.node, self.fh, 0, 100, Some(OWNER));
            return read.await.map(drop);
        }
        kernel.page(self.node, self.fh, 0).await.map(drop)
    }

    pub async fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let kernel = &self.kernel;
        let lock = kernel.state().lock_of(self.node)?;
        let end = at + bytes.len() as u64;
        let extends = end > kernel.state().node(self.node)?.attr.size;
        let parallel = self.flags.contains(OpenReplyFlags::PARALLEL_DIRECT_WRITES)
            && (!extends || kernel.has_quirk(Quirk::ExtendingWritesParallel))
            && !kernel.has_quirk(Quirk::DirectWritesSerialized);
        if parallel {
            let _shared = lock.read().await;
            if let Some(_parallel) = ParallelWrite::enter(kernel, self.node)? {
                return self.write_at(at, bytes).await;
            }
        }
        let _alone = lock.write().await;
        self.write_at(at, bytes).await
    }

    /// Appends at the end that the kernel has cached, without a request for the size.
    pub async fn append(&self, bytes: &[u8]) -> Result<()> {
        let kernel = &self.kernel;
        let lock = kernel.state().lock_of(self.node)?;
        let _alone = lock.write().await;
        if kernel.has_quirk(Quirk::AppendRevalidatesSize) {
            kernel.state().invalidate_attributes(self.node)?;
            kernel.attributes(self.node, true).await?;
        }
        let at = kernel.state().node(self.node)?.attr.size;
        self.write_at(at, bytes).await
    }

    /// The caller holds the inode's lock. Cached pages of the range are dropped before the write, and again after it, because
    /// reads may have filled them meanwhile.
    async fn write_at(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let kernel = &self.kernel;
        let end = at + bytes.len() as u64;
        let drop_pages = async || {
            if !kernel.has_quirk(Quirk::PagesSurviveWrites) {
                kernel.drop_pages(self.node, at, end).await;
            }
        };
        drop_pages().await;
        let request = op::Write {
            fh: self.fh,
            offset: at,
            flags: WriteFlags::LOCKOWNER,
            lock_owner: Some(OWNER),
            open_flags: 0,
            data: kernel.synthetic_requests.payload(bytes),
        };
        let written = kernel.wait_reply(kernel.fs.write(kernel.call(self.node), request));
        let written = u64::from(written.await?);
        kernel.state().note_write(self.node, at + written)?;
        if !kernel.has_quirk(Quirk::PagesDropBefore) {
            drop_pages().await;
        }
        Ok(())
    }

    /// Stores into the first page; the first call maps it.
    pub async fn store(&self, byte: u8) -> Result<()> {
        let kernel = &self.kernel;
        let allowed = kernel.flags.contains(InitFlags::DIRECT_IO_ALLOW_MMAP)
            && !kernel.has_quirk(Quirk::DirectFilesNotMapped)
            || kernel.has_quirk(Quirk::DirectFilesAlwaysMapped);
        if self.is_direct() && !allowed {
            return Err(Errno::ENODEV);
        }
        let cached = kernel.state().node(self.node)?.pages.get(&0).cloned();
        let mapped = std::mem::replace(&mut self.program_state.lock().mapped, true);
        let page = match cached.filter(|_| mapped) {
            Some(page) => page,
            None => {
                kernel.page(self.node, self.fh, 0).await?; // a page fault
                let state = kernel.state();
                state
                    .node(self.node)?
                    .pages
                    .get(&0)
                    .cloned()
                    .ok_or(Errno::EFAULT)?
            }
        };
        {
            let mut cached = page.lock().await;
            let mut stored = cached.bytes.take().unwrap_or_default().to_vec();
            stored.resize(PAGE as usize, 0);
            stored[0] = byte;
            cached.bytes = Some(stored.into());
            cached.dirty = Some(self.fh);
        }
        if kernel.has_quirk(Quirk::MappedStoresWriteThrough) {
            self.write(0, &[byte]).await?;
        }
        Ok(())
    }

    /// flock(2), exclusive.
    pub async fn flock(&self) -> Result<()> {
        if self.kernel.flags.contains(InitFlags::FLOCK_LOCKS) {
            self.set_flock(LockKind::Write).await?;
        }
        self.program_state.lock().flock = true;
        Ok(())
    }

    /// fcntl(2), exclusive.
    pub async fn lock(&self) -> Result<()> {
        if !self.kernel.flags.contains(InitFlags::POSIX_LOCKS) {
            return Ok(());
        }
        self.set_lock(LockKind::Write, LockFlags::empty()).await
    }

    async fn set_flock(&self, kind: LockKind) -> Result<()> {
        self.set_lock(kind, LockFlags::FLOCK).await
    }

    async fn set_lock(&self, kind: LockKind, flags: LockFlags) -> Result<()> {
        let kernel = &self.kernel;
        let request = op::Lock {
            fh: self.fh,
            owner: OWNER,
            lock: FileLock {
                start: 0,
                end: FileLock::EOF,
                kind,
                pid: 1,
            },
            flags,
        };
        kernel
            .wait_reply(kernel.fs.setlkw(kernel.call(self.node), request))
            .await
    }

    /// The program does not wait for the reply to RELEASE, which also releases a flock.
    pub async fn close(self) -> Result<()> {
        let flocked = self.program_state.lock().flock;
        if flocked && self.kernel.has_quirk(Quirk::FlockUnlockedBeforeRelease) {
            self.set_flock(LockKind::Unlock).await?;
        }
        if !self.is_direct() {
            self.kernel.state().node_mut(self.node)?.users.cached -= 1;
        }
        let flags = match flocked && !self.kernel.has_quirk(Quirk::FlockReleaseNotReported) {
            true => ReleaseFlags::FLOCK_UNLOCK,
            false => ReleaseFlags::empty(),
        };
        let File {
            kernel, node, fh, ..
        } = self;
        kernel.flush_and_release(node, fh, flags).await
    }
}

/// A write that runs in parallel with others; ends when dropped.
struct ParallelWrite<'a, F: FileSystem> {
    kernel: &'a Kernel<F>,
    node: NodeId,
}

impl<F: FileSystem> ParallelWrite<'_, F> {
    /// Returns None while a program uses the page cache: then writes run one at a time.
    fn enter(kernel: &Kernel<F>, node: NodeId) -> Result<Option<ParallelWrite<'_, F>>> {
        let mut state = kernel.state();
        let users = &mut state.node_mut(node)?.users;
        if users.cached > 0 {
            return Ok(None);
        }
        users.parallel_writes += 1;
        Ok(Some(ParallelWrite { kernel, node }))
    }
}

impl<F: FileSystem> Drop for ParallelWrite<'_, F> {
    fn drop(&mut self) {
        if let Ok(node) = self.kernel.state().node_mut(self.node) {
            node.users.parallel_writes -= 1;
            node.users.done.notify_waiters();
        }
    }
}
