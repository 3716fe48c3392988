//! The page cache of a file. A page is locked while it is read from the server; dropping a page waits for that lock.

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
    /// None until it was read.
    pub bytes: Option<Bytes>,
    /// A mapping stored into it, and it is not written yet: it must be written through this open file before it is dropped.
    pub dirty: Option<FileHandle>,
}

impl<F: FileSystem> Kernel<F> {
    /// A page, from the cache or from the server.
    pub(super) async fn page(&self, node: NodeId, fh: FileHandle, index: u64) -> Result<Bytes> {
        loop {
            let page = {
                let mut state = self.state();
                let pages = &mut state.node_mut(node)?.pages;
                pages.entry(index).or_default().clone()
            };
            let mut cached = page.lock().await;
            if !self.is_cached(node, index, &page) {
                continue; // dropped while we waited for its lock
            }
            if let Some(bytes) = &cached.bytes {
                return Ok(bytes.clone());
            }
            let owner = self.has(Quirk::OwnerEverywhere).then_some(LockOwner(1));
            match self
                .read_past(node, fh, index * PAGE, PAGE as u32, owner)
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

    /// A READ.
    pub(super) async fn read_past(
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
        let data = self.ask(self.fs.read(self.call(node), request)).await?;
        Ok(data.into_bytes())
    }

    /// Pages of a range are gone when this ends. It waits for those that are being read, and for the server to take those
    /// that are dirty.
    pub(super) async fn drop_pages(&self, node: NodeId, from: u64, to: u64) {
        let pages: Vec<(u64, Page)> = match self.state().node(node) {
            Ok(node) => {
                let behind = node.pages.range(from / PAGE..to.div_ceil(PAGE));
                behind.map(|(index, page)| (*index, page.clone())).collect()
            }
            Err(_) => return,
        };
        for (index, page) in pages {
            if self.has(Quirk::PagesWithoutLock) {
                self.forget_page(node, index, &page);
                continue;
            }
            let mut locked = page.lock().await;
            self.write_back(node, index, &mut locked).await;
            self.forget_page(node, index, &page);
        }
    }

    /// Writes a dirty page. If the server refuses, the bytes are lost.
    async fn write_back(&self, node: NodeId, index: u64, page: &mut Cached) {
        let Some(fh) = page.dirty.take() else { return };
        if self.has(Quirk::DirtyPagesVanish) {
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
            data: self.imagined.payload(&bytes[..within.min(bytes.len())]),
        };
        let written = self.ask(self.fs.write(self.call(node), request)).await;
        debug_assert!(written.is_ok() || self.dead.load(Ordering::Relaxed));
    }

    /// All dirty pages of a file: fsync, and close of a descriptor.
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

    /// A program reads through the page cache: attributes are asked for first if pages hang on them.
    pub(super) async fn read_cached(
        &self,
        node: NodeId,
        fh: FileHandle,
        at: u64,
    ) -> Result<Option<u8>> {
        let behind = at >= self.state().node(node)?.attr.size;
        if self.has(Quirk::PagesDieWithServer) && self.dead.load(Ordering::Relaxed) {
            return Err(Errno::ENOTCONN);
        }
        if self.flags.contains(InitFlags::AUTO_INVAL_DATA) || behind {
            self.known(node, false).await?;
        }
        if at >= self.state().node(node)?.attr.size {
            return Ok(None);
        }
        let page = self.page(node, fh, at / PAGE).await?;
        // The file may be longer than what was read.
        Ok(Some(page.get((at % PAGE) as usize).copied().unwrap_or(0)))
    }
}
