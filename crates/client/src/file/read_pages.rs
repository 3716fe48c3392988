//! A READ that fills the kernel's page cache (page faults of mappings, sendfile(2), splice(2), read-ahead).
//!
//! The kernel sends no request before it uses the page again, and none before a store into a mapped page. So the bytes need a lease: on the
//! file's data for reading, or the write lease if the file is open for writing here. Before the lease ends, the kernel drops the pages
//! (`kernel_pages`).

use super::FileIo;
use super::read::ReadOptions;
use crate::inodes::{ActiveInode, OpenFile};
use crate::kernel_pages::{PageRange, PageRead};
use crate::limits::{CLOSING_LOCK_MAX, CLOSING_READ_MAX, PAGE_LEASE_PAUSES, PAGE_LEASE_WAIT_MAX};
use crate::metrics::Counters;
use bytes::Bytes;
use gupfs_proto::{ByteCount, FileOffset, FsError};
use std::time::Duration;

/// What a READ asks for.
#[derive(Clone, Copy)]
struct PageRequest {
    offset: FileOffset,
    len: ByteCount,
    options: ReadOptions,
}

impl PageRequest {
    fn range(self) -> PageRange {
        self.offset.0..self.offset.saturating_add(self.len).0
    }
}

impl FileIo {
    /// As `Client::read_pages` promises.
    pub async fn read_pages(
        &self,
        file: &OpenFile,
        offset: FileOffset,
        len: ByteCount,
        options: ReadOptions,
    ) -> Result<Vec<Bytes>, FsError> {
        tracing::trace!(target: "walk", file = file!(), "read_pages");
        let pages = self.mds.kernel_pages();
        if !pages.is_tracked() {
            return self.read(file, offset, len, options).await;
        }
        let request = PageRequest {
            offset,
            len,
            options: ReadOptions {
                for_page_cache: true,
                ..options
            },
        };
        let (inode, mut waits) = (&file.inode, LeaseWaits::default());
        loop {
            let reading = pages.start_read(inode.ino, request.range()).await;
            // While the file is closed, the kernel may wait for this READ before it drops the page again.
            if self.has_lease_for_pages(inode) || reading.is_closing() {
                return self.answer(file, request, reading).await;
            }
            let has_writers = inode.state().opens.writers() > 0;
            if waits.are_over() || (!has_writers && !self.mds.takes_leases()) {
                return self.answer_without_lease(file, request, reading).await;
            }
            drop(reading);
            let acquired = self.acquire_lease_for_pages(inode, request, &mut waits);
            tokio::select! {
                biased;
                acquired = acquired => {
                    if let Some(reading) = acquired? {
                        return self.answer(file, request, reading).await;
                    }
                }
                () = pages.wait_for_closing(inode.ino) => {}
            }
        }
    }

    /// Whether the kernel may keep bytes of the file, and take stores into them if a program may map it for writing.
    fn has_lease_for_pages(&self, inode: &ActiveInode) -> bool {
        let (has_write_lease, writers) = {
            let state = inode.state();
            (state.has_exclusive_write_lease(), state.opens.writers())
        };
        match has_write_lease {
            true => self.mds.is_valid(),
            false => writers == 0 && self.mds.has_data_lease(inode.ino),
        }
    }

    /// Some: with the write lease. None: the server may have granted a lease on the data.
    async fn acquire_lease_for_pages(
        &self,
        inode: &ActiveInode,
        request: PageRequest,
        waits: &mut LeaseWaits,
    ) -> Result<Option<PageRead>, FsError> {
        Counters::add(&self.counters.page_leases, 1);
        let has_writers = inode.state().opens.writers() > 0;
        if has_writers {
            let acquired = self.leases.acquire_for_pages(inode, request.range());
            return match acquired.await {
                Err(error) if is_refusal(&error) => {
                    waits.end();
                    Ok(None)
                }
                acquired => acquired.map(Some),
            };
        }
        self.leases.begin_read(inode).await?;
        if !self.has_lease_for_pages(inode) {
            self.clock.sleep(waits.next()).await;
        }
        Ok(None)
    }

    /// Under a lease, or while the file is closed. While it is, the reply must not wait long for a lock: the task that holds it may wait for a server
    /// that waits for this client.
    async fn answer(
        &self,
        file: &OpenFile,
        request: PageRequest,
        reading: PageRead,
    ) -> Result<Vec<Bytes>, FsError> {
        let PageRequest {
            offset,
            len,
            options,
        } = request;
        let read = tokio::select! {
            biased;
            read = self.read(file, offset, len, options) => read,
            () = self.lock_is_overdue(&reading) => {
                self.read_without_waiting(file, request, &reading).await
            }
        };
        // After an error the kernel has no page.
        if read.is_ok() {
            reading.finish();
        }
        read
    }

    async fn lock_is_overdue(&self, reading: &PageRead) {
        reading.wait_for_closing().await;
        self.clock.sleep(CLOSING_LOCK_MAX).await;
    }

    /// By the state here, which is the file's until the lease ends. The kernel may get bytes from before a write that holds the lock: that write
    /// is done again when the kernel has dropped them (`FileIo::write`). Only an object server can delay it, and not for long: the client that waits for
    /// the lease must not wait for a server that is down.
    async fn read_without_waiting(
        &self,
        file: &OpenFile,
        request: PageRequest,
        reading: &PageRead,
    ) -> Result<Vec<Bytes>, FsError> {
        self.mds.check_opened_in(file.session())?;
        file.inode.start_unlocked_read();
        let end = request.offset.saturating_add(request.len);
        tokio::select! {
            biased;
            read = self.objects.read(&file.inode, request.offset, end) => Ok(read?.segments),
            () = self.clock.sleep_until(reading.closing_since() + CLOSING_READ_MAX) => {
                let what = "an object server, while another client waits for the file".to_string();
                Err(FsError::TimedOut(what))
            }
        }
    }

    /// The server grants no lease: the kernel gets the bytes, and drops them again.
    async fn answer_without_lease(
        &self,
        file: &OpenFile,
        request: PageRequest,
        reading: PageRead,
    ) -> Result<Vec<Bytes>, FsError> {
        let read = self.answer(file, request, reading).await;
        let (pages, ino) = (self.mds.kernel_pages().clone(), file.ino());
        self.tasks.spawn("drop pages without a lease", async move {
            pages.drop_pages(&[ino]).await;
        });
        read
    }
}

/// Whether the server refuses writes of the file now. It can be read all the same.
fn is_refusal(error: &FsError) -> bool {
    matches!(
        error,
        FsError::NoSpace | FsError::NotPermitted | FsError::Denied | FsError::ReadOnly
    )
}

/// Pauses between the requests for a lease.
#[derive(Default)]
struct LeaseWaits {
    last: Duration,
    all: Duration,
}

impl LeaseWaits {
    fn next(&mut self) -> Duration {
        let [shortest, longest] = PAGE_LEASE_PAUSES;
        self.last = (self.last * 2).clamp(shortest, longest);
        self.all += self.last;
        self.last
    }

    fn end(&mut self) {
        self.all = PAGE_LEASE_WAIT_MAX;
    }

    fn are_over(&self) -> bool {
        self.all >= PAGE_LEASE_WAIT_MAX
    }
}
