//! read(2): pieces from objects or the inode, zeros where nothing was ever written.

use super::flush;
use super::handle::OpenFile;
use super::objects::existing;
use super::state::Found;
use super::table::File;
use crate::answer;
use crate::join;
use crate::metrics::Counters;
use crate::options::AtimeRule;
use crate::service::Client;
use crate::verify;
use bytes::Bytes;
use gupfs_proto::data::{self, Checked};
use gupfs_proto::limits::{CHECKSUM_BLOCK, PAYLOAD_MAX};
use gupfs_proto::refusal::ObjectDamage;
use gupfs_proto::{Attr, Piece, Presence, Refusal};

/// What holes are made of: shared, so that reading them copies nothing.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// How a read is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadHow {
    /// O_NOATIME
    pub leaves_atime: bool,
}

/// What a read found.
#[derive(Default)]
pub(super) struct Read {
    pub segments: Vec<Bytes>,
    /// Somewhere an object had no bytes: there is a hole, or the file is shorter than it was.
    pub is_short: bool,
    /// Where it ends: at the end of the range or of the file.
    pub end: u64,
}

impl Read {
    /// Where the object ends and the file goes on, there is a hole.
    fn push(&mut self, piece: &Piece, bytes: Bytes) {
        let missing = piece.len - bytes.len() as u64;
        self.is_short |= missing > 0;
        push(&mut self.segments, bytes);
        push_zeros(&mut self.segments, missing);
    }
}

impl Client {
    /// Whether a read of a file with these attributes moves its access time now, so that it must come here.
    pub fn reading_shows(&self, attr: &Attr) -> bool {
        self.options.atime.moves(attr, self.platform.clock.now())
    }

    /// Whether every read moves it.
    pub fn each_reading_shows(&self) -> bool {
        self.options.atime == AtimeRule::Always
    }

    /// The bytes of `offset .. offset + len`, in order, as they came (holes are shared zeros); fewer at the end of the
    /// file, none beyond it.
    ///
    /// # Errors
    /// `ObjectDamaged` when an object that was made is missing, or its bytes twice do not match their checksum.
    pub async fn read(
        &self,
        file: &OpenFile,
        offset: u64,
        len: u64,
        how: ReadHow,
    ) -> Result<Vec<Bytes>, Refusal> {
        self.must_count(file)?;
        let inode = &file.inode;
        let end = offset.saturating_add(len);
        let _held = inode.ranges.shared(offset..end).await;
        let counts = {
            let mut state = inode.state();
            if len > 0
                && !how.leaves_atime
                && let Some(base) = state.base()
            {
                let now = self.platform.clock.now();
                if self.options.atime.moves(&state.overlay(*base), now) {
                    state.atime = Some(now);
                }
            }
            state.counts()
        };
        if counts {
            self.within_term().await?;
        }
        let found = match counts {
            true => self.read_known(inode, offset, end).await?,
            false => self.read_shared(inode, offset, end).await?,
        };
        Counters::add(&self.counters.reads, 1);
        let read = found.segments.iter().map(|bytes| bytes.len() as u64).sum();
        Counters::add(&self.counters.bytes_read, read);
        Ok(found.segments)
    }

    /// By what is known here of the file.
    pub(super) async fn read_known(
        &self,
        inode: &File,
        offset: u64,
        end: u64,
    ) -> Result<Read, Refusal> {
        let (found, end) = {
            let state = inode.state();
            let end = end.min(state.size);
            if offset >= end {
                return Ok(Read::default());
            }
            (state.plan_read(inode.ino, offset, end), end)
        };
        let mut read = match found {
            Found::Inline(bytes, zeros) => {
                let mut read = Read::default();
                push(&mut read.segments, bytes);
                push_zeros(&mut read.segments, zeros);
                read
            }
            Found::Pieces(pieces) => self.read_pieces(inode, &pieces).await?,
        };
        read.end = end;
        Ok(read)
    }

    pub(super) async fn read_pieces(
        &self,
        inode: &File,
        pieces: &[Piece],
    ) -> Result<Read, Refusal> {
        let most = self.piece_most();
        let parts: Vec<Piece>;
        let pieces = match pieces.iter().all(|piece| piece.len <= most) {
            true => pieces,
            false => {
                let split = |piece: &Piece| flush::split(*piece, most);
                parts = pieces.iter().flat_map(split).collect();
                &parts
            }
        };
        let mut read = Read {
            segments: Vec::with_capacity(2),
            ..Read::default()
        };
        if let [piece] = pieces {
            let bytes = self.get_piece(inode, piece).await?;
            read.push(piece, bytes);
        } else {
            let running = pieces.iter().map(|piece| self.get_piece(inode, piece));
            let all = join::all(running.collect()).await;
            for (piece, bytes) in pieces.iter().zip(all) {
                read.push(piece, bytes?);
            }
        }
        Ok(read)
    }

    /// What the object has of a piece: shorter where it ends, empty if it was never made.
    async fn get_piece(&self, inode: &File, piece: &Piece) -> Result<Bytes, Refusal> {
        if piece.presence == Presence::Never {
            return Ok(Bytes::new());
        }
        // To the end of the block: then a short answer tells where the object ends, and its last block can be checked.
        let asked = (piece.at.0 + piece.len).next_multiple_of(CHECKSUM_BLOCK) - piece.at.0;
        let asked = asked.min(PAYLOAD_MAX.0);
        // The second time the target looks for itself: it knows then, too, and says so in its status.
        for checked in [Checked::ByAsker, Checked::ByBoth] {
            let op = data::Op::Read {
                object: piece.object,
                at: piece.at,
                len: asked,
                existing: existing(piece.presence),
                checked,
            };
            let data::Answer::Data { data, sums } = self.ask_ost(piece.ost, op).await? else {
                return answer::unexpected("read");
            };
            if verify::matches(&data, piece.at.0, asked, &sums) {
                let len = data.len().min(piece.len as usize);
                return Ok(data.slice(..len));
            }
            tracing::warn!(ino = %inode.ino, object = %piece.object, ost = %piece.ost, ?checked, "bytes do not match their checksum");
            Counters::add(&self.counters.checksum_retries, 1);
        }
        Err(Refusal::ObjectDamaged {
            ost: piece.ost,
            object: piece.object,
            what: ObjectDamage::Checksum,
        })
    }
}

fn push(segments: &mut Vec<Bytes>, bytes: Bytes) {
    if !bytes.is_empty() {
        segments.push(bytes);
    }
}

fn push_zeros(segments: &mut Vec<Bytes>, mut count: u64) {
    while count > 0 {
        let take = count.min(ZEROS.len() as u64);
        segments.push(Bytes::from_static(&ZEROS[..take as usize]));
        count -= take;
    }
}
