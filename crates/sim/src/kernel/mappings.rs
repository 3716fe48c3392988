//! Shared mappings, splice(2) and sendfile(2): they read through the page cache whatever the file is opened for, and revalidate
//! nothing.

use super::cached_page::{PAGE, Page};
use super::pages::BUS_ERROR;
use super::{File, Kernel, Quirk};
use bytes::Bytes;
use gupfs_fuse::{Errno, FileSystem, InitFlags, Result};

/// Bytes that splice(2) has moved into a pipe: references to pages, which an invalidation does not reach.
pub struct Pipe(PipeContent);

enum PipeContent {
    /// Part of a page.
    Page(Page, std::ops::Range<usize>),
    Copy(Bytes),
}

impl Pipe {
    /// Reads the pipe.
    ///
    /// # Errors
    /// EAGAIN while the page is locked, EIO if it has lost its bytes.
    pub fn read(&self) -> Result<Vec<u8>> {
        match &self.0 {
            PipeContent::Copy(bytes) => Ok(bytes.to_vec()),
            PipeContent::Page(page, range) => {
                let page = page.try_lock().map_err(|_| Errno::EAGAIN)?;
                let bytes = page.bytes.as_ref().ok_or(Errno::EIO)?;
                let range = range.start.min(bytes.len())..range.end.min(bytes.len());
                Ok(bytes[range].to_vec())
            }
        }
    }
}

impl<F: FileSystem> File<F> {
    /// splice(2) into a pipe: at most up to the end of the page.
    pub async fn splice(&self, at: u64, length: usize) -> Result<Pipe> {
        let kernel = &self.kernel;
        let bypasses = self.bypasses_pages() && !self.is_direct()
            || self.is_direct() && kernel.has_quirk(Quirk::SpliceBypassesPageCache);
        if bypasses {
            let bytes = self.read(at, length).await?;
            return Ok(Pipe(PipeContent::Copy(bytes.into())));
        }
        if kernel.has_quirk(Quirk::SpliceRevalidates) {
            kernel.revalidate_size(&self.inode, self.fh).await?;
        }
        if at >= self.inode.size() {
            return Ok(Pipe(PipeContent::Copy(Bytes::new())));
        }
        let (page, _) = kernel.page(self.io(), at / PAGE).await?;
        let end = (at + length as u64).min(self.inode.size());
        let start = at / PAGE * PAGE;
        let range = (at - start) as usize..(end - start).min(PAGE) as usize;
        Ok(Pipe(PipeContent::Page(page, range)))
    }

    /// sendfile(2): at most up to the end of the page.
    pub async fn send(&self, at: u64, length: usize) -> Result<Vec<u8>> {
        self.splice(at, length).await?.read()
    }

    /// A byte that a program loads from a shared mapping. The first access maps the file.
    ///
    /// # Errors
    /// ENODEV if the file cannot be mapped; EFAULT for SIGBUS, behind the end of the file.
    pub async fn load(&self, at: u64) -> Result<u8> {
        self.map().await?;
        if self.kernel.has_quirk(Quirk::MappedLoadsRevalidate) {
            self.kernel.revalidate_size(&self.inode, self.fh).await?;
        }
        let page = self.mapped_page(at / PAGE).await?;
        let page = page.lock().await;
        let bytes = page.bytes.as_ref().ok_or(BUS_ERROR)?;
        Ok(bytes.get((at % PAGE) as usize).copied().unwrap_or(0))
    }

    /// Stores a byte into a shared mapping. The first access maps the file.
    ///
    /// # Errors
    /// As `load`.
    pub async fn store(&self, at: u64, byte: u8) -> Result<()> {
        self.map().await?;
        let (kernel, node, index) = (&self.kernel, self.inode.node(), at / PAGE);
        loop {
            let page = self.mapped_page(index).await?;
            let mut cached = page.lock().await;
            let survives = kernel.has_quirk(Quirk::MappingsSurviveInvalidation);
            if !survives && !kernel.is_cached(node, index, &page) {
                continue; // dropped meanwhile: another page fault
            }
            let mut stored = cached.bytes.take().unwrap_or_default().to_vec();
            stored.resize(PAGE as usize, 0);
            stored[(at % PAGE) as usize] = byte;
            cached.bytes = Some(stored.into());
            cached.dirty = Some(self.fh);
            break;
        }
        if kernel.has_quirk(Quirk::MappedStoresWriteThrough) {
            kernel.write_back_all(node).await;
        }
        Ok(())
    }

    /// The first shared mapping of a file with direct I/O waits for parallel direct writes, as an open for the page cache does, and
    /// drops the pages.
    async fn map(&self) -> Result<()> {
        let (kernel, node) = (&self.kernel, self.inode.node());
        if self.is_direct() && !kernel.allows_direct_mappings() {
            return Err(Errno::ENODEV);
        }
        let is_first = {
            let mut program = self.program.lock();
            let is_first = program.mapped.is_none();
            program.mapped.get_or_insert(None);
            is_first
        };
        if is_first && self.is_direct() {
            kernel.enter_page_cache(node).await?;
            kernel.drop_pages(node, 0, u64::MAX).await;
        }
        Ok(())
    }

    /// A page in memory: a mapped one, or by a page fault.
    async fn mapped_page(&self, index: u64) -> Result<Page> {
        if self.kernel.has_quirk(Quirk::MappingsSurviveInvalidation) {
            let mapped = self.program.lock().mapped.clone().flatten();
            if let Some(page) = mapped {
                return Ok(page);
            }
        }
        if index * PAGE >= self.inode.size() {
            return Err(BUS_ERROR);
        }
        let (page, _) = self.kernel.page(self.io(), index).await?;
        self.program.lock().mapped = Some(Some(page.clone()));
        Ok(page)
    }

    /// msync(2).
    pub async fn msync(&self) -> Result<()> {
        self.sync(false).await
    }
}

impl<F: FileSystem> Kernel<F> {
    fn allows_direct_mappings(&self) -> bool {
        self.flags.contains(InitFlags::DIRECT_IO_ALLOW_MMAP)
            && !self.has_quirk(Quirk::DirectFilesNotMapped)
            || self.has_quirk(Quirk::DirectFilesAlwaysMapped)
    }
}
