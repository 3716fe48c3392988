//! lseek(2) with SEEK_DATA and SEEK_HOLE.

use super::flush::Span;
use super::handle::OpenFile;
use super::state::Home;
use super::table::File;
use crate::answer;
use crate::join;
use crate::service::Client;
use gupfs_proto::{Presence, Refusal, data};

/// What programs are told as st_blksize. Units of layouts are multiples of it.
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
    pub async fn seek(&self, file: &OpenFile, offset: u64, to: SeekTo) -> Result<u64, Refusal> {
        self.must_count(file)?;
        let inode = &file.inode;
        let _held = inode.ranges.shared(offset..u64::MAX).await;
        self.load(inode).await?;
        let (size, home, inline) = {
            let state = inode.state();
            (state.size, state.home(), state.inline().len() as u64)
        };
        if offset >= size {
            return Err(Refusal::NoMoreData);
        }
        // A block with a byte of data is data, as on a local disk, also behind the end of an object that ends in it.
        let mut from = offset / BLOCK * BLOCK;
        loop {
            let found = match home {
                Home::Inode => match to {
                    SeekTo::Data => (from < inline).then_some(from),
                    SeekTo::Hole => Some(from.max(inline)),
                },
                Home::Objects => self.seek_objects(inode, from, size, to).await?,
            };
            match (found.filter(|at| *at < size), to) {
                (Some(at), SeekTo::Data) => return Ok(offset.max(at / BLOCK * BLOCK)),
                (None, SeekTo::Data) => return Err(Refusal::NoMoreData),
                (Some(at), SeekTo::Hole) if at % BLOCK == 0 => return Ok(offset.max(at)),
                (Some(at), SeekTo::Hole) => from = at.next_multiple_of(BLOCK),
                (None, SeekTo::Hole) => return Ok(size),
            }
            if from >= size {
                return Ok(size);
            }
        }
    }

    /// Component by component: in each, the nearest of what its objects find.
    async fn seek_objects(
        &self,
        inode: &File,
        offset: u64,
        size: u64,
        to: SeekTo,
    ) -> Result<Option<u64>, Refusal> {
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

    /// As an offset of the file; None when the object has none before it ends or leaves the component.
    async fn seek_object(
        &self,
        inode: &File,
        span: &Span,
        to: SeekTo,
    ) -> Result<Option<u64>, Refusal> {
        let at = match (span.presence, to) {
            (Presence::Never, SeekTo::Data) => None,
            (Presence::Never, SeekTo::Hole) => Some(span.at),
            (Presence::Maybe | Presence::Present, _) => {
                let what = match to {
                    SeekTo::Data => data::Seek::Data,
                    SeekTo::Hole => data::Seek::Hole,
                };
                let op = data::Op::Seek {
                    object: span.object,
                    at: span.at,
                    what,
                };
                match self.ask_ost(span.ost, op).await? {
                    // Where the object ends there is a hole, whether it says so or finds nothing.
                    data::Answer::Found(None) if to == SeekTo::Hole => Some(span.at),
                    data::Answer::Found(found) => found,
                    _ => return answer::unexpected("seek"),
                }
            }
        };
        let state = inode.state();
        let component = &state.layout.components[span.component];
        Ok(at.and_then(|at| component.file_offset(span.stripe, at.0)))
    }
}
