//! write(2): a range lock, the pieces beside each other, then size and time.

use super::flush;
use super::handle::{Durability, OpenFile};
use super::hold::Along;
use super::inline;
use super::objects::existing;
use super::state::{Home, Way};
use super::table::File;
use crate::answer;
use crate::join;
use crate::metrics::Counters;
use crate::service::Client;
use crate::verify;
use bytes::Bytes;
use gupfs_proto::data::{self, Owner};
use gupfs_proto::limits::FILE_SIZE_MAX;
use gupfs_proto::meta::{Access, WriteAt};
use gupfs_proto::{OstLife, Piece, Refusal};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteHow {
    /// Whoever writes is not privileged: setuid, setgid and capabilities of the file go.
    pub kill_privileges: bool,
    /// At least this; an open file's O_SYNC or O_DSYNC counts too.
    pub durability: Durability,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteDone {
    /// Bytes from the start of the data that were written; fewer than given if the rest failed.
    pub written: u64,
    /// Where they went: for an append, where the file ended.
    pub offset: u64,
    /// Where the file ends now.
    pub size: u64,
}

/// How far the pieces of one write got, from its start.
pub(super) struct Put {
    pub written: u64,
    pub refusal: Option<Refusal>,
}

impl Client {
    /// # Errors
    /// `TooLarge` at the largest offset, `NoSpace`, or whatever kept the first byte from being written; if only later
    /// bytes failed the write is short.
    pub async fn write(
        &self,
        file: &OpenFile,
        at: WriteAt,
        data: Bytes,
        how: WriteHow,
    ) -> Result<WriteDone, Refusal> {
        if !file.access().contains(Access::WRITE) {
            return Err(Refusal::Denied);
        }
        self.must_count(file)?;
        let done = self
            .write_bytes(&file.inode, at, data, how.kill_privileges)
            .await?;
        Counters::add(&self.counters.writes, 1);
        Counters::add(&self.counters.bytes_written, done.written);
        match how.durability.max(file.flags().durability()) {
            Durability::Answered => {}
            Durability::Data => self.fsync(file, true).await?,
            Durability::All => self.fsync(file, false).await?,
        }
        Ok(done)
    }

    async fn write_bytes(
        &self,
        inode: &File,
        at: WriteAt,
        data: Bytes,
        kill_privileges: bool,
    ) -> Result<WriteDone, Refusal> {
        let len = data.len() as u64;
        let wish = match at {
            WriteAt::Offset(offset) => Some(offset),
            WriteAt::End => None,
        };
        loop {
            let way = inode.state().way(wish, len);
            let _held = inode.ranges.exclusive(way.from..way.to).await;
            // While we waited the file may have been cut, or moved out of its inode, so that the write needs more.
            if !way.covers(inode.state().way(wish, len)) {
                continue;
            }
            let size = inode.state().size_to_write()?;
            let offset = wish.unwrap_or(size);
            if len == 0 {
                return Ok(WriteDone {
                    written: 0,
                    offset,
                    size,
                });
            }
            let fitting = that_fits(offset, &data)?;
            if way == Way::WHOLE
                && let Some(done) = self
                    .try_inline(inode, at, offset, &fitting, kill_privileges)
                    .await?
            {
                return Ok(done);
            }
            let along = self
                .hold_to_write(inode, kill_privileges, wish, &fitting)
                .await?;
            if let Some(Along { from, put }) = along {
                return self.has_put(inode, from, put, true).await;
            }
            self.within_term().await?;
            // Where others write too, the file's end is known only now.
            let offset = inode.state().may_write_at(wish)?;
            let fitting = that_fits(offset, &data)?;
            return self.write_objects(inode, offset, &fitting).await;
        }
    }

    /// With the whole file to itself: writes into the inode if the bytes fit there. None if they do not.
    async fn try_inline(
        &self,
        inode: &File,
        at: WriteAt,
        offset: u64,
        data: &Bytes,
        kill_privileges: bool,
    ) -> Result<Option<WriteDone>, Refusal> {
        let fits = inline::fits(offset + data.len() as u64);
        if fits && inode.state().home() == Home::Inode {
            return self.write_inline(inode, at, data, kill_privileges).await;
        }
        Ok(None)
    }

    /// The range, and the end of the file if it moves, are the caller's.
    async fn write_objects(
        &self,
        inode: &File,
        offset: u64,
        data: &Bytes,
    ) -> Result<WriteDone, Refusal> {
        let moves_end = offset + data.len() as u64 > inode.state().size;
        if moves_end {
            self.cut_before_growth(inode).await?;
        }
        let put = self.put(inode, offset, data).await;
        self.has_put(inode, offset, put, moves_end).await
    }

    /// What was put becomes part of the file.
    async fn has_put(
        &self,
        inode: &File,
        offset: u64,
        put: Put,
        moves_end: bool,
    ) -> Result<WriteDone, Refusal> {
        if put.written > 0 {
            let end = offset + put.written;
            inode.state().wrote(end, self.platform.clock.now());
        }
        if put.refusal.is_some() {
            self.after_failure(inode, moves_end).await;
        }
        match put.refusal {
            Some(refusal) if put.written == 0 => Err(refusal),
            _ => Ok(WriteDone {
                written: put.written,
                offset,
                size: inode.state().size,
            }),
        }
    }

    /// Writes to objects; size and time are the caller's affair.
    pub(super) async fn put(&self, inode: &File, offset: u64, data: &Bytes) -> Put {
        let (pieces, owner) = {
            let mut state = inode.state();
            let pieces = state.plan_write(inode.ino, offset, data.len() as u64);
            (self.parts(pieces), state.owner())
        };
        if let [(piece, last)] = pieces[..] {
            let stat = self.put_piece(&piece, last, data, owner).await;
            return settle(inode, [(piece, stat)]);
        }
        let running = pieces.into_iter().map(|(piece, last)| async move {
            (piece, self.put_piece(&piece, last, data, owner).await)
        });
        let stats = join::all(running.collect()).await;
        settle(inode, stats)
    }

    /// The pieces of a write as they travel, each with whether nothing of its object lies behind it.
    fn parts(&self, pieces: Vec<(Piece, bool)>) -> Vec<(Piece, bool)> {
        let most = self.piece_most();
        if pieces.iter().all(|(piece, _)| piece.len <= most) {
            return pieces;
        }
        let parts = pieces.into_iter().flat_map(|(piece, last)| {
            let end = piece.at.0 + piece.len;
            flush::split(piece, most).map(move |part| (part, last && part.at.0 + part.len == end))
        });
        parts.collect()
    }

    async fn put_piece(
        &self,
        piece: &Piece,
        last: bool,
        data: &Bytes,
        owner: Owner,
    ) -> Result<(data::ObjectStat, OstLife), Refusal> {
        let bytes = data.slice(piece.skip as usize..(piece.skip + piece.len) as usize);
        let op = data::Op::Write {
            object: piece.object,
            at: piece.at,
            sums: verify::sums_of(&bytes, piece.at.0, last),
            data: bytes,
            existing: existing(piece.presence),
            owner,
        };
        answer::written("write", self.ask_ost(piece.ost, op).await?)
    }
}

/// As much of `data` as has its place before the largest offset.
fn that_fits(offset: u64, data: &Bytes) -> Result<Bytes, Refusal> {
    match FILE_SIZE_MAX.saturating_sub(offset) {
        0 => Err(Refusal::TooLarge),
        room => Ok(data.slice(..room.min(data.len() as u64) as usize)),
    }
}

/// Takes in the answers, in the order of the file: written is what lies before the first failure.
fn settle(
    inode: &File,
    stats: impl IntoIterator<Item = (Piece, Result<(data::ObjectStat, OstLife), Refusal>)>,
) -> Put {
    let mut put = Put {
        written: 0,
        refusal: None,
    };
    let mut state = inode.state();
    for (piece, stat) in stats {
        match stat {
            Ok(stat) => {
                state.written(piece.component, piece.stripe, stat);
                if put.refusal.is_none() {
                    put.written += piece.len;
                }
            }
            Err(refusal) => put.refusal = put.refusal.or(Some(refusal)),
        }
    }
    put
}
