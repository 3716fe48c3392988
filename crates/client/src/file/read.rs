//! read(2): locks the range, then reads by the state here, or as a file that other clients may be writing.

use super::FileIo;
use crate::inodes::{InodeState, OpenFile};
use crate::metrics::Counters;
use crate::options::AtimeMode;
use bytes::Bytes;
use gupfs_proto::{Attr, ByteCount, FileOffset, FsError};

/// Options of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadOptions {
    /// O_NOATIME
    pub leaves_atime: bool,
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
        let inode = &file.inode;
        let end = offset.saturating_add(len);
        let _held = inode.range_locks.shared(offset..end).await;
        let is_authoritative = {
            let mut state = inode.state();
            if len > ByteCount(0) && !options.leaves_atime {
                self.note_read(&mut state);
            }
            state.is_authoritative()
        };
        let read = match is_authoritative {
            true => {
                self.mds.wait_for_valid_session().await?;
                self.objects.read(inode, offset, end).await?
            }
            false => self.read_shared(inode, offset, end).await?,
        };
        Counters::add(&self.counters.reads, 1);
        let bytes = read.segments.iter().map(|bytes| bytes.len() as u64).sum();
        Counters::add(&self.counters.bytes_read, bytes);
        Ok(read.segments)
    }

    /// Updates the access time if the mode says so.
    fn note_read(&self, state: &mut InodeState) {
        if let Some(base) = state.server_attr() {
            let now = self.clock.now();
            if self.atime.updates_atime(&state.overlay(*base), now) {
                state.set_atime(Some(now));
            }
        }
    }
}
