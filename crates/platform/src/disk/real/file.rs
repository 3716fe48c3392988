//! An open file: writing, syncing, space.

use super::super::{Advice, DiskStat, Result};
use super::failed;
use crate::tasks::{run_on_pool, spawn_on_pool};
use gupfs_proto::Timestamp;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A truncate that frees less than this runs on the calling thread: freeing the extents costs less than a hand-off.
const TRUNCATE_INLINE_MAX: u64 = 16 << 20;

/// Zeros are written in steps of this size, so that writers of other files can use the device in between.
const ZERO_STEP: usize = 1 << 20;

pub(crate) struct RealFile {
    pub(super) fd: OwnedFd,
    pub(super) path: Arc<str>,
    /// Opened with O_DIRECT: reads always wait for the device.
    pub(super) direct: bool,
}

impl AsFd for RealFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl RealFile {
    pub fn new(fd: OwnedFd, path: &str, direct: bool) -> RealFile {
        RealFile {
            fd,
            path: path.into(),
            direct,
        }
    }

    pub async fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> Result<()> {
        tracing::trace!(target: "walk", file = file!(), "write_at");
        while !bytes.is_empty() {
            match rustix::io::pwrite(&self.fd, bytes, offset) {
                Ok(0) => return Err(self.failed("write", Errno::NOSPC)),
                Ok(wrote) => {
                    bytes = &bytes[wrote..];
                    offset += wrote as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed("write", errno)),
            }
        }
        Ok(())
    }

    pub async fn write_vectored_at(&self, parts: &[IoSlice<'_>], mut offset: u64) -> Result<()> {
        let mut parts = parts.to_vec();
        let mut left = &mut parts[..];
        IoSlice::advance_slices(&mut left, 0); // drops empty parts in front
        while !left.is_empty() {
            match rustix::io::pwritev(&self.fd, left, offset) {
                Ok(0) => return Err(self.failed("write", Errno::NOSPC)),
                Ok(wrote) => {
                    IoSlice::advance_slices(&mut left, wrote);
                    offset += wrote as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed("write", errno)),
            }
        }
        Ok(())
    }

    pub async fn sync_data(self: &Arc<Self>) -> Result<()> {
        self.on_pool("sync", |file| rustix::fs::fdatasync(&file.fd))
            .await
    }

    pub async fn sync_all(self: &Arc<Self>) -> Result<()> {
        self.on_pool("sync", |file| rustix::fs::fsync(&file.fd))
            .await
    }

    pub async fn stat(&self) -> Result<DiskStat> {
        rustix::fs::fstat(&self.fd)
            .map(|stat| stat_of(&stat))
            .map_err(|errno| self.failed("stat", errno))
    }

    pub async fn set_len(self: &Arc<Self>, len: u64) -> Result<()> {
        let old = self.stat().await?.len;
        if old.saturating_sub(len) < TRUNCATE_INLINE_MAX {
            rustix::fs::ftruncate(&self.fd, len)
                .map_err(|errno| self.failed("set the length of", errno))
        } else {
            self.on_pool("set the length of", move |file| {
                rustix::fs::ftruncate(&file.fd, len)
            })
            .await
        }
    }

    pub async fn allocate(self: &Arc<Self>, offset: u64, len: u64) -> Result<()> {
        self.fallocate("allocate", FallocateFlags::empty(), offset, len)
            .await
    }

    pub async fn allocate_keeping_len(self: &Arc<Self>, offset: u64, len: u64) -> Result<()> {
        self.fallocate("allocate", FallocateFlags::KEEP_SIZE, offset, len)
            .await
    }

    pub async fn zero_range(self: &Arc<Self>, offset: u64, len: u64) -> Result<()> {
        let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        self.fallocate("zero", flags, offset, len).await
    }

    pub async fn punch_hole(self: &Arc<Self>, offset: u64, len: u64) -> Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.fallocate("punch a hole in", flags, offset, len).await
    }

    pub async fn zero_fill(self: &Arc<Self>, offset: u64, len: u64) -> Result<()> {
        self.on_pool("fill with zeros", move |file| {
            let zeros = vec![0; ZERO_STEP.min(len as usize)];
            let mut done = 0;
            while done < len {
                let step = (len - done).min(zeros.len() as u64) as usize;
                match rustix::io::pwrite(&file.fd, &zeros[..step], offset + done) {
                    Ok(0) => return Err(Errno::NOSPC),
                    Ok(wrote) => done += wrote as u64,
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            Ok(())
        })
        .await
    }

    pub async fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        self.seek(SeekFrom::Data(offset))
    }

    pub async fn seek_hole(&self, offset: u64) -> Result<Option<u64>> {
        self.seek(SeekFrom::Hole(offset))
    }

    pub fn read_ahead(self: &Arc<Self>, offset: u64, len: u64) {
        let file = self.clone();
        spawn_on_pool(move || drop(file.advise(offset, len, Advice::WillNeed)));
    }

    pub fn advise(&self, offset: u64, len: u64, advice: Advice) -> Result<()> {
        use rustix::fs::Advice as Kernel;
        let advice = match advice {
            Advice::Sequential => Kernel::Sequential,
            Advice::Random => Kernel::Random,
            Advice::WillNeed => Kernel::WillNeed,
            Advice::DontNeed => Kernel::DontNeed,
        };
        rustix::fs::fadvise(&self.fd, offset, std::num::NonZeroU64::new(len), advice)
            .map_err(|errno| self.failed("advise on", errno))
    }

    fn seek(&self, to: SeekFrom) -> Result<Option<u64>> {
        match rustix::fs::seek(&self.fd, to) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            Err(errno) => Err(self.failed("seek in", errno)),
        }
    }

    async fn fallocate(
        self: &Arc<Self>,
        op: &'static str,
        flags: FallocateFlags,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        if len == 0 {
            return Ok(()); // the kernel refuses empty ranges
        }
        self.on_pool(op, move |file| {
            rustix::fs::fallocate(&file.fd, flags, offset, len)
        })
        .await
    }

    async fn on_pool(
        self: &Arc<Self>,
        op: &'static str,
        run: impl Fn(&RealFile) -> rustix::io::Result<()> + Send + 'static,
    ) -> Result<()> {
        let file = Arc::clone(self);
        run_on_pool(move || {
            loop {
                match run(&file) {
                    Err(Errno::INTR) => {}
                    done => return done,
                }
            }
        })
        .await
        .map_err(|errno| self.failed(op, errno))
    }

    pub(super) fn failed(&self, op: &'static str, errno: Errno) -> super::super::DiskError {
        failed(op, &self.path, errno)
    }
}

pub(super) fn stat_of(stat: &rustix::fs::Stat) -> DiskStat {
    DiskStat {
        len: stat.st_size as u64,
        allocated: stat.st_blocks as u64 * 512,
        mtime: Timestamp::new(stat.st_mtime, stat.st_mtime_nsec as u32),
    }
}
