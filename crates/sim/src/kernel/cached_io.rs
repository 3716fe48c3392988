//! Reads and writes of programs through the page cache.

use super::cached_page::{CachedPage, PAGE};
use super::inode_ref::InodeRef;
use super::pages::IoHandle;
use super::{Kernel, Quirk, WRITE_MAX};
use bytes::Bytes;
use gupfs_fuse::{Errno, FileSystem, InitFlags, Result, WriteFlags, op};
use std::sync::atomic::Ordering;
use tokio::sync::OwnedMutexGuard;

/// A page of a write, locked.
struct LockedPage {
    index: u64,
    page: OwnedMutexGuard<CachedPage>,
}

impl<F: FileSystem> Kernel<F> {
    /// Reads through the page cache. With AUTO_INVAL_DATA, or behind the end, the attributes are revalidated first.
    pub(super) async fn read_cached(
        &self,
        inode: &InodeRef,
        io: IoHandle,
        at: u64,
        length: usize,
    ) -> Result<Vec<u8>> {
        if self.has_quirk(Quirk::PagesDroppedOnAbort) && self.is_aborted.load(Ordering::Relaxed) {
            return Err(Errno::ENOTCONN);
        }
        let end = at + length as u64;
        if self.flags.contains(InitFlags::AUTO_INVAL_DATA) || end > inode.size() {
            self.revalidate_size(inode, io.fh).await?;
        }
        let mut read = Vec::new();
        loop {
            let position = at + read.len() as u64;
            if position >= end.min(inode.size()) {
                return Ok(read);
            }
            let (_, page) = self.page(io, position / PAGE).await?;
            // A short READ may have shown that the file is shorter.
            let until = end.min(inode.size()).min((position / PAGE + 1) * PAGE);
            for position in position..until {
                // The file may have grown since the page was filled.
                let byte = page.get((position % PAGE) as usize);
                read.push(byte.copied().unwrap_or(0));
            }
        }
    }

    /// Writes through the page cache: WRITE is sent while the pages are locked, and the pages keep the bytes. The caller holds the
    /// inode's lock.
    pub(super) async fn write_through(
        &self,
        inode: &InodeRef,
        io: IoHandle,
        at: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let extends = at + bytes.len() as u64 > inode.size();
        self.state().set_size_changes(io.node, extends);
        let written = self.write_parts(io, at, bytes).await;
        self.state().set_size_changes(io.node, false);
        written
    }

    async fn write_parts(&self, io: IoHandle, mut offset: u64, bytes: &[u8]) -> Result<()> {
        for part in bytes.chunks(WRITE_MAX) {
            let mut pages = self.lock_pages(io, offset, part.len()).await?;
            let request = op::Write {
                fh: io.fh,
                offset,
                flags: WriteFlags::empty(),
                lock_owner: None,
                open_flags: io.open_flags,
                data: self.synthetic_requests.payload(part),
            };
            let reply = self.fs.write(self.call(io.node), request);
            let written = self.wait_reply(reply).await? as usize;
            let written = &part[..written.min(part.len())];
            for locked in &mut pages {
                locked.patch(offset, written);
            }
            let end = offset + written.len() as u64;
            self.state().note_write(io.node, end)?;
            if written.len() < part.len() {
                return Err(Errno::EIO);
            }
            offset = end;
        }
        Ok(())
    }

    async fn lock_pages(
        &self,
        io: IoHandle,
        offset: u64,
        length: usize,
    ) -> Result<Vec<LockedPage>> {
        let end = offset + length as u64;
        let mut pages = Vec::new();
        for index in offset / PAGE..end.div_ceil(PAGE) {
            loop {
                let page = self.page_at(io.node, index)?;
                let locked = page.clone().lock_owned().await;
                if self.is_cached(io.node, index, &page) {
                    pages.push(LockedPage {
                        index,
                        page: locked,
                    });
                    break;
                }
            }
        }
        Ok(pages)
    }
}

impl LockedPage {
    /// Copies the part of a write that lies in this page; a page that is not filled is filled only by a write of all its bytes.
    fn patch(&mut self, offset: u64, written: &[u8]) {
        let (start, end) = (self.index * PAGE, (self.index + 1) * PAGE);
        let from = offset.max(start);
        let until = (offset + written.len() as u64).min(end);
        if from >= until {
            return;
        }
        let part = &written[(from - offset) as usize..(until - offset) as usize];
        let mut bytes = match &self.page.bytes {
            Some(bytes) => bytes.to_vec(),
            None if part.len() as u64 == PAGE => Vec::new(),
            None => return,
        };
        let (from, until) = ((from - start) as usize, (until - start) as usize);
        if bytes.len() < until {
            bytes.resize(until, 0);
        }
        bytes[from..until].copy_from_slice(part);
        self.page.bytes = Some(Bytes::from(bytes));
    }
}
