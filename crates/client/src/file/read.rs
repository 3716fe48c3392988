//! read(2): locks the range, then reads from this client's memory, by the state here, or as a file that other clients may be writing.

use super::FileIo;
use super::objects::FileBytes;
use crate::inodes::{ActiveInode, OpenFile};
use crate::metrics::Counters;
use crate::options::AtimeMode;
use bytes::Bytes;
use gupfs_proto::{Attr, ByteCount, FileOffset, FsError};

/// Options of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadOptions {
    /// O_NOATIME
    pub leaves_atime: bool,
    /// The kernel fills its page cache (`Client::read_pages`).
    pub(super) for_page_cache: bool,
}

impl ReadOptions {
    pub fn new(leaves_atime: bool) -> ReadOptions {
        ReadOptions {
            leaves_atime,
            for_page_cache: false,
        }
    }
}

impl FileIo {
    /// Whether a read of a file with these attributes updates its access time now.
    pub fn read_updates_atime(&self, attr: &Attr) -> bool {
        self.atime.updates_atime(attr, self.clock.now())
    }

    pub fn every_read_updates_atime(&self) -> bool {
        self.atime == AtimeMode::Always
    }

    /// read(2), as `Client::read` promises.
    pub async fn read(
        &self,
        file: &OpenFile,
        offset: FileOffset,
        len: ByteCount,
        options: ReadOptions,
    ) -> Result<Vec<Bytes>, FsError> {
        tracing::trace!(target: "walk", file = file!(), "read");
        self.mds.check_opened_in(file.session())?;
        let end = offset.saturating_add(len);
        let segments = self.read_cached(file, offset, end, options).await?;
        Counters::add(&self.counters.reads, 1);
        let bytes = segments.iter().map(|bytes| bytes.len() as u64).sum();
        Counters::add(&self.counters.bytes_read, bytes);
        Ok(segments)
    }

    /// Reads what servers have, or inline data. The caller has locked the range.
    pub(super) async fn read_servers(
        &self,
        inode: &ActiveInode,
        offset: FileOffset,
        end: FileOffset,
        options: ReadOptions,
    ) -> Result<FileBytes, FsError> {
        if end > offset {
            self.note_read(inode, options);
        }
        let is_authoritative = inode.state().is_authoritative();
        match is_authoritative {
            true => {
                self.mds.wait_for_valid_session().await?;
                self.objects.read(inode, offset, end).await
            }
            false => self.read_shared(inode, offset, end).await,
        }
    }

    /// Updates the access time if the mode and the program's flags say so.
    pub(super) fn note_read(&self, inode: &ActiveInode, options: ReadOptions) {
        if options.leaves_atime {
            return;
        }
        let mut state = inode.state();
        if let Some(base) = state.server_attr() {
            let now = self.clock.now();
            if self.atime.updates_atime(&state.overlay(*base), now) {
                state.set_atime(Some(now));
            }
        }
    }
}
