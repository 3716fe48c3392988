//! The page cache of a file. A page is locked while a READ fills it; dropping a page waits for that lock.

use super::{Kernel, Quirk};
use bytes::Bytes;
use gupfs_fuse::{
    Errno, FileHandle, FileSystem, InitFlags, LockOwner, NodeId, ReadFlags, Result, WriteFlags, op,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::Mutex;

pub const PAGE: u64 = 4096;

/// A page, with its lock.
pub type Page = Arc<Mutex<Cached>>;

#[derive(Default)]
pub struct Cached {
    /// None until the page is filled.
    pub bytes: Option<Bytes>,
    /// A mapping stored into the page. It must be written through this open file before it is dropped.
    pub dirty: Option<FileHandle>,
}

impl<F: FileSystem> Kernel<F> {
    /// Returns a page, from the cache or by a READ.
    pub(super) async fn page(&self, node: NodeId, fh: FileHandle, index: u64) -> Result<Bytes> {
        loop {
            let page = {
                let mut state = self.state();
                let pages = &mut state.node_mut(node)?.pages;
                pages.entry(index).or_default().clone()
            };
            let mut cached = page.lock().await;
            if !self.is_cached(node, index, &page) {
                continue; // dropped while this call waited for its lock
            }
            if let Some(bytes) = &cached.bytes {
                return Ok(bytes.clone());
            }
            let owner = self
                .has_quirk(Quirk::CachedReadsCarryOwner)
                .then_some(LockOwner(1));
            match self
                .read_from_server(node, fh, index * PAGE, PAGE as u32, owner)
                .await
            {
                Ok(read) => return Ok(cached.bytes.insert(read).clone()),
                Err(errno) => {
                    self.forget_page(node, index, &page);
                    return Err(errno);
                }
            }
        }
    }

    fn is_cached(&self, node: NodeId, index: u64, page: &Page) -> bool {
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

    /// Sends a READ.
    pub(super) async fn read_from_server(
        &self,
        node: NodeId,
        fh: FileHandle,
        offset: u64,
        size: u32,
        lock_owner: Option<LockOwner>,
    ) -> Result<Bytes> {
        let flags = match lock_owner {
            Some(_) => ReadFlags::LOCKOWNER,
            None => ReadFlags::empty(),
        };
        let request = op::Read {
            fh,
            offset,
            size,
            flags,
            lock_owner,
            open_flags: 0,
        };
        let data = self
            .wait_reply(self.fs.read(self.call(node), request))
            .await?;
        Ok(data.into_bytes())
    }

    /// Drops the pages of a range. Waits for reads that fill them, and writes dirty ones first.
    pub(super) async fn drop_pages(&self, node: NodeId, from: u64, to: u64) {
        let pages: Vec<(u64, Page)> = match self.state().node(node) {
            Ok(node) => {
                let pages = node.pages.range(from / PAGE..to.div_ceil(PAGE));
                pages.map(|(index, page)| (*index, page.clone())).collect()
            }
            Err(_) => return,
        };
        for (index, page) in pages {
            if self.has_quirk(Quirk::PageInvalidationTakesNoLock) {
                self.forget_page(node, index, &page);
                continue;
            }
            let mut locked = page.lock().await;
            self.write_back(node, index, &mut locked).await;
            self.forget_page(node, index, &page);
        }
    }

    /// Writes a dirty page. If the write fails, the bytes are lost.
    async fn write_back(&self, node: NodeId, index: u64, page: &mut Cached) {
        let Some(fh) = page.dirty.take() else { return };
        if self.has_quirk(Quirk::DirtyPagesDropped) {
            return;
        }
        let Ok(size) = self.state().node(node).map(|node| node.attr.size) else {
            return;
        };
        let within = size.saturating_sub(index * PAGE).min(PAGE) as usize;
        let bytes = page.bytes.clone().unwrap_or_default();
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
        debug_assert!(written.is_ok() || self.is_aborted.load(Ordering::Relaxed));
    }

    /// Writes all dirty pages of a file, as fsync and close do.
    pub(super) async fn write_back_all(&self, node: NodeId) {
        let pages: Vec<(u64, Page)> = match self.state().node(node) {
            Ok(node) => node
                .pages
                .iter()
                .map(|(index, page)| (*index, page.clone()))
                .collect(),
            Err(_) => return,
        };
        for (index, page) in pages {
            let mut page = page.lock().await;
            self.write_back(node, index, &mut page).await;
        }
    }

    /// Reads through the page cache. With AUTO_INVAL_DATA, or behind the end, the attributes are revalidated first.
    pub(super) async fn read_cached(
        &self,
        node: NodeId,
        fh: FileHandle,
        at: u64,
    ) -> Result<Option<u8>> {
        let is_behind_end = at >= self.state().node(node)?.attr.size;
        if self.has_quirk(Quirk::PagesDroppedOnAbort) && self.is_aborted.load(Ordering::Relaxed) {
            return Err(Errno::ENOTCONN);
        }
        if self.flags.contains(InitFlags::AUTO_INVAL_DATA) || is_behind_end {
            self.attributes(node, false).await?;
        }
        if at >= self.state().node(node)?.attr.size {
            return Ok(None);
        }
        let page = self.page(node, fh, at / PAGE).await?;
        // The file may have grown since the page was filled.
        Ok(Some(page.get((at % PAGE) as usize).copied().unwrap_or(0)))
    }
}
