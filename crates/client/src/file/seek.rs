//! lseek(2) with SEEK_DATA and SEEK_HOLE.

use super::FileIo;
use super::objects::SeekTo;
use crate::inodes::{ActiveInode, DataLocation, OpenFile};
use gupfs_proto::{ByteCount, FileOffset, FsError};

/// The st_blksize that programs see. Stripe units are multiples of it.
const BLOCK: ByteCount = ByteCount::kib(4);

impl FileIo {
    /// The first data or hole at or after `offset`; the end of the file is a hole.
    ///
    /// # Errors
    /// `NoMoreData` at or beyond the end of the file, and for data when only a hole is left.
    pub async fn seek(
        &self,
        file: &OpenFile,
        offset: FileOffset,
        to: SeekTo,
    ) -> Result<FileOffset, FsError> {
        self.mds.check_opened_in(file.session())?;
        let inode = &file.inode;
        let _held = inode.range_locks.shared(offset..FileOffset::MAX).await;
        self.leases.load(inode).await?;
        loop {
            let objects = inode.state().objects.objects_version();
            let found = self.seek_loaded(inode, offset, to).await;
            // Where the file has other objects since, the former ones may be removed, and look like holes.
            self.leases.load(inode).await?;
            if inode.state().objects.objects_version() == objects {
                return found;
            }
        }
    }

    /// By the state here.
    async fn seek_loaded(
        &self,
        inode: &ActiveInode,
        offset: FileOffset,
        to: SeekTo,
    ) -> Result<FileOffset, FsError> {
        let (end, home, inline) = {
            let state = inode.state();
            (
                state.end_of_file(),
                state.data_location(),
                FileOffset(state.inline().len() as u64),
            )
        };
        if offset >= end {
            return Err(FsError::NoMoreData);
        }
        // A block with a byte of data counts as data, as on a local disk, also behind the end of an object that ends in it.
        let mut from = block_of(offset);
        loop {
            let found = match home {
                DataLocation::Inode => match to {
                    SeekTo::Data => (from < inline).then_some(from),
                    SeekTo::Hole => Some(from.max(inline)),
                },
                DataLocation::Objects => self.objects.seek(inode, from, end, to).await?,
            };
            match (found.filter(|at| *at < end), to) {
                (Some(at), SeekTo::Data) => return Ok(offset.max(block_of(at))),
                (None, SeekTo::Data) => return Err(FsError::NoMoreData),
                (Some(at), SeekTo::Hole) if at == block_of(at) => return Ok(offset.max(at)),
                (Some(at), SeekTo::Hole) => from = block_of(at) + BLOCK,
                (None, SeekTo::Hole) => return Ok(end),
            }
            if from >= end {
                return Ok(end);
            }
        }
    }
}

/// The start of the block.
fn block_of(offset: FileOffset) -> FileOffset {
    FileOffset(offset.0 / BLOCK.0 * BLOCK.0)
}
