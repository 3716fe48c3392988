//! The page cache of a file. A page is locked while it is read from the server; who drops it waits for that.

use super::{Kernel, Quirk};
use bytes::Bytes;
use gupfs_door::{FileSystem, Handle, InitFlags, LockOwner, NodeId, ReadFlags, Result, op};
use std::sync::Arc;
use tokio::sync::Mutex;

pub const PAGE: u64 = 4096;

/// None until it was read.
pub type Page = Arc<Mutex<Option<Bytes>>>;

impl<F: FileSystem> Kernel<F> {
    /// A page, from the cache or from the server.
    pub(super) async fn page(&self, node: NodeId, fh: Handle, index: u64) -> Result<Bytes> {
        loop {
            let page = {
                let mut state = self.state();
                let pages = &mut state.node_mut(node)?.pages;
                pages.entry(index).or_default().clone()
            };
            let mut bytes = page.lock().await;
            if !self.is_cached(node, index, &page) {
                continue; // dropped while we waited for its lock
            }
            if let Some(bytes) = &*bytes {
                return Ok(bytes.clone());
            }
            let owner = self.has(Quirk::OwnerEverywhere).then_some(LockOwner(1));
            match self
                .read_past(node, fh, index * PAGE, PAGE as u32, owner)
                .await
            {
                Ok(read) => return Ok(bytes.insert(read).clone()),
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
        fh: Handle,
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

    /// Pages from `offset` on are gone when this ends; it waits for those that are being read.
    pub(super) async fn drop_pages(&self, node: NodeId, offset: u64) {
        let pages: Vec<(u64, Page)> = match self.state().node(node) {
            Ok(node) => {
                let behind = node.pages.range(offset / PAGE..);
                behind.map(|(index, page)| (*index, page.clone())).collect()
            }
            Err(_) => return,
        };
        for (index, page) in pages {
            let _locked = match self.has(Quirk::PagesWithoutLock) {
                true => None,
                false => Some(page.lock().await),
            };
            self.forget_page(node, index, &page);
        }
    }

    /// A program reads through the page cache: attributes are asked for first if pages hang on them.
    pub(super) async fn read_cached(
        &self,
        node: NodeId,
        fh: Handle,
        at: u64,
    ) -> Result<Option<u8>> {
        let behind = at >= self.state().node(node)?.attr.size;
        if self.flags.contains(InitFlags::AUTO_INVAL_DATA)
            || behind
            || self.has(Quirk::PagesDieWithServer)
        {
            self.known(node).await?;
        }
        if at >= self.state().node(node)?.attr.size {
            return Ok(None);
        }
        let page = self.page(node, fh, at / PAGE).await?;
        // The file may be longer than what was read.
        Ok(Some(page.get((at % PAGE) as usize).copied().unwrap_or(0)))
    }
}
