//! lseek(2) with SEEK_DATA and SEEK_HOLE.

use super::FileIo;
use super::objects::SeekTo;
use crate::inodes::{DataLocation, OpenFile};
use gupfs_proto::FsError;

/// The st_blksize that programs see. Stripe units are multiples of it.
const BLOCK: u64 = 4096;

impl FileIo {
    /// The first data or hole at or after `offset`; the end of the file is a hole.
    ///
    /// # Errors
    /// `NoMoreData` at or beyond the end of the file, and for data when only a hole is left.
    pub async fn seek(&self, file: &OpenFile, offset: u64, to: SeekTo) -> Result<u64, FsError> {
        self.mds.check_opened_in(file.session())?;
        let inode = &file.inode;
        let _held = inode.range_locks.shared(offset..u64::MAX).await;
        self.leases.load(inode).await?;
        let (size, home, inline) = {
            let state = inode.state();
            (
                state.size(),
                state.data_location(),
                state.inline().len() as u64,
            )
        };
        if offset >= size {
            return Err(FsError::NoMoreData);
        }
        // A block with a byte of data counts as data, as on a local disk, also behind the end of an object that ends in it.
        let mut from = offset / BLOCK * BLOCK;
        loop {
            let found = match home {
                DataLocation::Inode => match to {
                    SeekTo::Data => (from < inline).then_some(from),
                    SeekTo::Hole => Some(from.max(inline)),
                },
                DataLocation::Objects => self.objects.seek(inode, from, size, to).await?,
            };
            match (found.filter(|at| *at < size), to) {
                (Some(at), SeekTo::Data) => return Ok(offset.max(at / BLOCK * BLOCK)),
                (None, SeekTo::Data) => return Err(FsError::NoMoreData),
                (Some(at), SeekTo::Hole) if at % BLOCK == 0 => return Ok(offset.max(at)),
                (Some(at), SeekTo::Hole) => from = at.next_multiple_of(BLOCK),
                (None, SeekTo::Hole) => return Ok(size),
            }
            if from >= size {
                return Ok(size);
            }
        }
    }
}
