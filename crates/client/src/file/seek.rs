//! lseek(2) with SEEK_DATA and SEEK_HOLE.

use super::chunks::ObjectSpan;
use super::inode_state::DataLocation;
use super::inode_table::ActiveInode;
use super::open_file::OpenFile;
use crate::join;
use crate::reply;
use crate::service::Client;
use gupfs_proto::{FsError, Presence, data};

/// The st_blksize that programs see. Stripe units are multiples of it.
const BLOCK: u64 = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeekTo {
    Data,
    Hole,
}

impl Client {
    /// The first data or hole at or after `offset`; the end of the file is a hole.
    ///
    /// # Errors
    /// `NoMoreData` at or beyond the end of the file, and for data when only a hole is left.
    pub async fn seek(&self, file: &OpenFile, offset: u64, to: SeekTo) -> Result<u64, FsError> {
        self.check_session(file)?;
        let inode = &file.inode;
        let _held = inode.range_locks.shared(offset..u64::MAX).await;
        self.load(inode).await?;
        let (size, home, inline) = {
            let state = inode.state();
            (
                state.size,
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
                DataLocation::Objects => self.seek_objects(inode, from, size, to).await?,
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

    /// Searches component by component; in each, takes the nearest result of its objects.
    async fn seek_objects(
        &self,
        inode: &ActiveInode,
        offset: u64,
        size: u64,
        to: SeekTo,
    ) -> Result<Option<u64>, FsError> {
        let components = inode.state().layout.components.len();
        for index in 0..components {
            let spans = {
                let state = inode.state();
                let component = &state.layout.components[index];
                let (from, to) = (offset.max(component.from.0), size.min(component.to.0));
                if from >= to {
                    continue;
                }
                state.spans(inode.ino, from, to)
            };
            let running = spans.iter().map(|span| self.seek_object(inode, span, to));
            let mut nearest: Option<u64> = None;
            for found in join::all(running.collect()).await {
                nearest = match (nearest, found?) {
                    (Some(one), Some(two)) => Some(one.min(two)),
                    (one, two) => one.or(two),
                };
            }
            if nearest.is_some() {
                return Ok(nearest);
            }
        }
        Ok(None)
    }

    /// The result as a file offset; None when the object has none before it ends or leaves the component.
    async fn seek_object(
        &self,
        inode: &ActiveInode,
        span: &ObjectSpan,
        to: SeekTo,
    ) -> Result<Option<u64>, FsError> {
        let at = match (span.presence, to) {
            (Presence::Never, SeekTo::Data) => None,
            (Presence::Never, SeekTo::Hole) => Some(span.at),
            (Presence::Maybe | Presence::Present, _) => {
                let whence = match to {
                    SeekTo::Data => data::SeekWhence::Data,
                    SeekTo::Hole => data::SeekWhence::Hole,
                };
                let op = data::DataOp::Seek {
                    object: span.object,
                    at: span.at,
                    whence,
                };
                match self.call_ost(span.ost, op).await? {
                    // The end of the object is a hole, whether the target reports it or finds nothing.
                    data::DataReplyBody::Position(None) if to == SeekTo::Hole => Some(span.at),
                    data::DataReplyBody::Position(found) => found,
                    _ => return reply::unexpected("seek"),
                }
            }
        };
        let state = inode.state();
        let component = &state.layout.components[span.component];
        Ok(at.and_then(|at| component.file_offset(span.stripe, at.0)))
    }
}
