//! Open files: reads and writes, appends, fsync, fstat.

use super::attributes::{Change, OWNER};
use super::cached_page::Page;
use super::inode_ref::InodeRef;
use super::pages::IoHandle;
use super::state::Needed;
use super::{Kernel, Quirk, WRITE_MAX};
use gupfs_fuse::op;
use gupfs_fuse::{
    Errno, FileHandle, FileSystem, FsyncFlags, InodeAttr, NodeId, OpenReply, OpenReplyFlags,
    Result, WriteFlags,
};
use libc::{O_APPEND, O_DIRECT, O_SYNC};
use parking_lot::Mutex;
use std::sync::Arc;

/// Whether a program's flags contain this flag.
pub fn has_flag(flags: u32, flag: libc::c_int) -> bool {
    flags & flag as u32 != 0
}

/// An open file. One that is dropped instead of closed sends neither FLUSH nor RELEASE, as if the host had crashed.
pub struct File<F> {
    pub(super) kernel: Arc<Kernel<F>>,
    pub(super) inode: InodeRef,
    pub(super) fh: FileHandle,
    pub(super) reply_flags: OpenReplyFlags,
    /// The program's O_… flags.
    pub(super) flags: u32,
    pub(super) program: Mutex<ProgramState>,
}

#[derive(Default)]
pub struct ProgramState {
    pub flock: bool,
    /// The file is mapped shared; the page that was mapped last.
    pub mapped: Option<Option<Page>>,
    /// Number of the inode's lost writes that were reported, or that happened before the open.
    pub reported_losses: u64,
}

impl<F: FileSystem> File<F> {
    pub(super) fn new(
        kernel: Arc<Kernel<F>>,
        inode: InodeRef,
        opened: OpenReply,
        flags: u32,
    ) -> File<F> {
        let losses = kernel.lost_writes(inode.node());
        File {
            kernel,
            inode,
            fh: opened.fh,
            reply_flags: opened.flags,
            flags,
            program: Mutex::new(ProgramState {
                reported_losses: losses,
                ..ProgramState::default()
            }),
        }
    }

    /// Writes the dirty pages; EIO, once per open file, if that or an earlier write-back failed.
    pub(super) async fn write_back(&self) -> Result<()> {
        let node = self.inode.node();
        self.kernel.write_back_all(node).await;
        let losses = self.kernel.lost_writes(node);
        let reported = std::mem::replace(&mut self.program.lock().reported_losses, losses);
        match losses > reported {
            true => Err(Errno::EIO),
            false => Ok(()),
        }
    }

    pub(super) fn io(&self) -> IoHandle {
        IoHandle {
            node: self.inode.node(),
            fh: self.fh,
            open_flags: self.flags,
        }
    }

    /// The server wants direct I/O.
    pub(super) fn is_direct(&self) -> bool {
        self.reply_flags.contains(OpenReplyFlags::DIRECT_IO)
    }

    /// Reads and writes of programs bypass the page cache.
    pub(super) fn bypasses_pages(&self) -> bool {
        self.is_direct() || has_flag(self.flags, O_DIRECT)
    }

    /// pread(2): fewer bytes at the end of the file.
    pub async fn read(&self, at: u64, length: usize) -> Result<Vec<u8>> {
        let kernel = &self.kernel;
        if !self.bypasses_pages() {
            return kernel.read_cached(&self.inode, self.io(), at, length).await;
        }
        if !kernel.has_quirk(Quirk::DirectReadsIgnoreDirtyPages) {
            kernel.write_back_all(self.inode.node()).await;
        }
        // O_DIRECT alone ends at the cached size.
        let cuts = !self.is_direct() || kernel.has_quirk(Quirk::DirectReadsCutAtCachedSize);
        if cuts && at >= self.inode.size() {
            return Ok(Vec::new());
        }
        let length = length.min(WRITE_MAX) as u32;
        let read = kernel.read_from_server(self.io(), at, length, Some(OWNER));
        Ok(read.await?.to_vec())
    }

    /// pwrite(2). With O_APPEND it appends, whatever the offset.
    pub async fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        if has_flag(self.flags, O_APPEND) {
            return self.append(bytes).await;
        }
        let kernel = &self.kernel;
        let lock = self.inode.lock();
        let end = at + bytes.len() as u64;
        let extends = end > self.inode.size();
        let parallel = self
            .reply_flags
            .contains(OpenReplyFlags::PARALLEL_DIRECT_WRITES)
            && self.is_direct()
            && (!extends || kernel.has_quirk(Quirk::ExtendingWritesParallel))
            && !kernel.has_quirk(Quirk::DirectWritesSerialized);
        if parallel {
            let _shared = lock.read().await;
            // The file may be shorter by now.
            let extends = end > self.inode.size();
            if (!extends || kernel.has_quirk(Quirk::ExtendingWritesParallel))
                && let Some(_parallel) = ParallelWrite::enter(kernel, self.inode.node())?
            {
                return self.write_direct(at, bytes).await;
            }
        }
        let _alone = lock.write().await;
        self.write_at(at, bytes).await
    }

    /// Appends at the end that the kernel has cached, without a request for the size.
    pub async fn append(&self, bytes: &[u8]) -> Result<()> {
        let kernel = &self.kernel;
        let lock = self.inode.lock();
        let _alone = lock.write().await;
        if kernel.has_quirk(Quirk::AppendRevalidatesSize) {
            kernel.state().invalidate_attributes(self.inode.node())?;
            kernel.attributes(&self.inode, Needed::Stat, None).await?;
        }
        self.write_at(self.inode.size(), bytes).await
    }

    /// The caller holds the inode's lock exclusively.
    async fn write_at(&self, at: u64, bytes: &[u8]) -> Result<()> {
        if self.bypasses_pages() {
            return self.write_direct(at, bytes).await;
        }
        self.kernel
            .write_through(&self.inode, self.io(), at, bytes)
            .await?;
        if has_flag(self.flags, O_SYNC) {
            self.sync(false).await?;
        }
        Ok(())
    }

    /// The caller holds the inode's lock. Cached pages of the range are dropped before the write, and again after it, because
    /// reads may have filled them meanwhile.
    async fn write_direct(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let (kernel, node) = (&self.kernel, self.inode.node());
        let end = at + bytes.len() as u64;
        let drop_pages = async || {
            if !kernel.has_quirk(Quirk::PagesSurviveWrites) {
                kernel.drop_pages(node, at, end).await;
            }
        };
        drop_pages().await;
        let written = self.send_writes(at, bytes).await;
        if !kernel.has_quirk(Quirk::PagesDropBefore) {
            drop_pages().await;
        }
        written
    }

    async fn send_writes(&self, mut offset: u64, bytes: &[u8]) -> Result<()> {
        let (kernel, node) = (&self.kernel, self.inode.node());
        for part in bytes.chunks(WRITE_MAX) {
            let request = op::Write {
                fh: self.fh,
                offset,
                flags: WriteFlags::LOCKOWNER,
                lock_owner: Some(OWNER),
                open_flags: self.flags,
                data: kernel.synthetic_requests.payload(part),
            };
            let written = kernel.wait_reply(kernel.fs.write(kernel.call(node), request));
            let written = written.await?;
            offset += u64::from(written);
            kernel.state().note_write(node, offset)?;
            if (written as usize) < part.len() {
                return Err(Errno::EIO);
            }
        }
        Ok(())
    }

    /// fsync(2), or fdatasync(2).
    pub async fn sync(&self, data_only: bool) -> Result<()> {
        let kernel = &self.kernel;
        self.write_back().await?;
        let flags = match data_only {
            true => FsyncFlags::DATASYNC,
            false => FsyncFlags::empty(),
        };
        let request = op::Fsync { fh: self.fh, flags };
        let reply = kernel.fs.fsync(kernel.call(self.inode.node()), request);
        match kernel.wait_reply(reply).await {
            Err(Errno::ENOSYS) => Ok(()),
            synced => synced,
        }
    }

    /// fstat(2).
    pub async fn stat(&self) -> Result<InodeAttr> {
        let kernel = &self.kernel;
        kernel.attributes(&self.inode, Needed::Stat, None).await
    }

    /// ftruncate(2).
    pub async fn truncate(&self, size: u64) -> Result<()> {
        let change = Change::Size(size);
        self.kernel
            .change_inode(&self.inode, change, Some(self.fh))
            .await
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
        let io = &mut state.node_mut(node)?.io;
        if io.cached > 0 {
            return Ok(None);
        }
        io.parallel_writes += 1;
        Ok(Some(ParallelWrite { kernel, node }))
    }
}

impl<F: FileSystem> Drop for ParallelWrite<'_, F> {
    fn drop(&mut self) {
        if let Ok(node) = self.kernel.state().node_mut(self.node) {
            node.io.parallel_writes -= 1;
            node.io.done.notify_waiters();
        }
    }
}
