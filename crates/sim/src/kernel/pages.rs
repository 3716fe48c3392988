//! The page cache of a file. A page is locked while a READ fills it; dropping a page waits for that lock.

use super::cached_page::{CachedPage, PAGE, Page};
use super::inode_ref::InodeRef;
use super::state::Needed;
use super::{Kernel, Quirk};
use bytes::Bytes;
use gupfs_fuse::{
    Errno, FileHandle, FileSystem, InitFlags, LockOwner, NodeId, ReadFlags, Result, WriteFlags, op,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The open file that a READ or a WRITE names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoHandle {
    pub node: NodeId,
    pub fh: FileHandle,
    /// The program's O_… flags.
    pub open_flags: u32,
}

impl<F: FileSystem> Kernel<F> {
    /// Returns a filled page, from the cache or by a READ.
    pub(super) async fn page(&self, io: IoHandle, index: u64) -> Result<(Page, Bytes)> {
        loop {
            let page = self.page_at(io.node, index)?;
            let mut cached = page.lock().await;
            if !self.is_cached(io.node, index, &page) {
                continue; // dropped while this call waited for its lock
            }
            if let Some(bytes) = &cached.bytes {
                let bytes = bytes.clone();
                drop(cached);
                return Ok((page, bytes));
            }
            let owner = self
                .has_quirk(Quirk::CachedReadsCarryOwner)
                .then_some(LockOwner(1));
            let sent = self.request_version();
            let offset = index * PAGE;
            match self.read_from_server(io, offset, PAGE as u32, owner).await {
                Ok(read) => {
                    if (read.len() as u64) < PAGE {
                        let end = offset + read.len() as u64;
                        self.state().note_short_read(io.node, end, sent)?;
                    }
                    cached.bytes = Some(read.clone());
                    drop(cached);
                    return Ok((page, read));
                }
                Err(errno) => {
                    self.forget_page(io.node, index, &page);
                    return Err(errno);
                }
            }
        }
    }

    /// A page, which may not be filled.
    pub(super) fn page_at(&self, node: NodeId, index: u64) -> Result<Page> {
        let mut state = self.state();
        let pages = &mut state.node_mut(node)?.pages;
        Ok(pages.entry(index).or_default().clone())
    }

    pub(super) fn is_cached(&self, node: NodeId, index: u64, page: &Page) -> bool {
        let state = self.state();
        let cached = state.node(node).ok();
        cached
            .and_then(|node| node.pages.get(&index))
            .is_some_and(|cached| Arc::ptr_eq(cached, page))
    }

    fn forget_page(&self, node: NodeId, index: u64, page: &Page) {
        if self.is_cached(node, index, page)
            && let Ok(node) = self.state().node_mut(node)
        {
            node.pages.remove(&index);
        }
    }

    /// Sends a READ. The reply changes the time of the last access.
    pub(super) async fn read_from_server(
        &self,
        io: IoHandle,
        offset: u64,
        size: u32,
        lock_owner: Option<LockOwner>,
    ) -> Result<Bytes> {
        let flags = match lock_owner {
            Some(_) => ReadFlags::LOCKOWNER,
            None => ReadFlags::empty(),
        };
        let request = op::Read {
            fh: io.fh,
            offset,
            size,
            flags,
            lock_owner,
            open_flags: io.open_flags,
        };
        let reply = self.fs.read(self.call(io.node), request);
        let data = self.wait_reply(reply).await?;
        self.state().node_mut(io.node)?.invalidate_times();
        Ok(data.into_bytes())
    }

    fn pages_in(&self, node: NodeId, from: u64, to: u64) -> Vec<(u64, Page)> {
        let state = self.state();
        let Ok(node) = state.node(node) else {
            return Vec::new();
        };
        let pages = node.pages.range(from / PAGE..to.div_ceil(PAGE));
        pages.map(|(index, page)| (*index, page.clone())).collect()
    }

    /// Drops the pages of a range, and a cached listing. Waits for reads that fill them, and writes dirty ones first.
    pub(super) async fn drop_pages(&self, node: NodeId, from: u64, to: u64) {
        if let Ok(node) = self.state().node_mut(node) {
            node.listing = None;
        }
        for (index, page) in self.pages_in(node, from, to) {
            if self.has_quirk(Quirk::PageInvalidationTakesNoLock) {
                self.forget_page(node, index, &page);
                continue;
            }
            let mut locked = page.lock().await;
            self.write_back(node, index, &mut locked).await;
            self.forget_page(node, index, &page);
            if self.has_quirk(Quirk::InvalidationEmptiesPipes) {
                locked.bytes = None;
            }
        }
    }

    /// Drops the pages behind the end of a file without writing them, and the rest of its last page.
    pub(super) async fn truncate_pages(&self, node: NodeId, size: u64) {
        for (index, page) in self.pages_in(node, size / PAGE * PAGE, u64::MAX) {
            let mut locked = page.lock().await;
            let kept = size.saturating_sub(index * PAGE);
            if kept == 0 {
                locked.dirty = None;
                self.forget_page(node, index, &page);
            } else if let Some(bytes) = &mut locked.bytes {
                bytes.truncate(kept as usize);
            }
        }
    }

    /// Writes a dirty page. If the write fails, the bytes are lost.
    async fn write_back(&self, node: NodeId, index: u64, page: &mut CachedPage) {
        let Some(fh) = page.dirty.take() else { return };
        if self.has_quirk(Quirk::DirtyPagesDropped) {
            return;
        }
        let Ok(size) = self.state().node(node).map(|node| node.attr.size) else {
            return;
        };
        let within = size.saturating_sub(index * PAGE).min(PAGE) as usize;
        let bytes = page.bytes.clone().unwrap_or_default();
        if within == 0 {
            return; // behind the end of the file
        }
        let request = op::Write {
            fh,
            offset: index * PAGE,
            flags: WriteFlags::CACHE,
            lock_owner: None,
            open_flags: 0,
            data: self
                .synthetic_requests
                .payload(&bytes[..within.min(bytes.len())]),
        };
        let written = self
            .wait_reply(self.fs.write(self.call(node), request))
            .await;
        let mut state = self.state();
        let Ok(known) = state.node_mut(node) else {
            return;
        };
        // The server has set new times; with a write-back cache the kernel's own count.
        if !self.flags.contains(InitFlags::WRITEBACK_CACHE) {
            known.invalidate_times();
        }
        if written.is_err() && !self.is_aborted.load(Ordering::Relaxed) {
            known.lost_writes += 1;
        }
    }

    /// Number of write-backs of a file that failed: fsync(2) and close(2) report them.
    pub(super) fn lost_writes(&self, node: NodeId) -> u64 {
        let state = self.state();
        state.node(node).map_or(0, |node| node.lost_writes)
    }

    /// Writes all dirty pages of a file, as fsync and close do.
    pub(super) async fn write_back_all(&self, node: NodeId) {
        for (index, page) in self.pages_in(node, 0, u64::MAX) {
            let mut page = page.lock().await;
            self.write_back(node, index, &mut page).await;
        }
    }

    /// Requests the attributes of an open file unless their lifetime lasts.
    pub(super) async fn revalidate_size(&self, inode: &InodeRef, fh: FileHandle) -> Result<()> {
        let found = self.attributes(inode, Needed::Basic, Some(fh)).await;
        found.map(drop)
    }
}

/// The error of a page fault behind the end of the file: SIGBUS.
pub const BUS_ERROR: Errno = Errno::EFAULT;
