//! Reading from objects: all chunks at once; a chunk whose bytes do not match their checksums is read twice.
//!
//! Where all copies of a chunk are damaged, each half is read by itself, down to single checksum blocks: the copies may be damaged in
//! different blocks. A damaged block of all copies costs about eight further reads of each copy.

use super::{ObjectIo, required_existence, verify};
use crate::inodes::{ActiveInode, MemberObject, ReadPlan, UnsentRead};
use crate::join;
use crate::metrics::Counters;
use crate::reply;
use bytes::{Bytes, BytesMut};
use gupfs_proto::data::{self, ChecksumCheck};
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::limits::{CHECKSUM_BLOCK, PAYLOAD_MAX};
use gupfs_proto::{ByteCount, FileOffset, FsError, ObjectOffset, Presence, StripeChunk};

/// The bytes of holes: shared, so that reading a hole copies nothing.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// The bytes of a range of a file.
#[derive(Default)]
pub struct FileBytes {
    pub segments: Vec<Bytes>,
    /// An object returned fewer bytes than requested: there is a hole, or the file has become shorter.
    pub is_short: bool,
    /// Its end: the end of the range or of the file.
    pub end: FileOffset,
}

impl FileBytes {
    fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.segments.push(bytes);
        }
    }

    fn push_zeros(&mut self, count: ByteCount) {
        let mut count = count.0;
        while count > 0 {
            let take = count.min(ZEROS.len() as u64);
            self.segments
                .push(Bytes::from_static(&ZEROS[..take as usize]));
            count -= take;
        }
    }

    /// Where the object ends before the chunk does, there is a hole.
    fn push_chunk(&mut self, chunk: &StripeChunk, bytes: Bytes) {
        let missing = chunk.len - bytes.len() as u64;
        self.is_short |= missing > 0;
        self.push(bytes);
        self.push_zeros(ByteCount(missing));
    }
}

impl ObjectIo {
    /// Reads `offset .. end` by the state that this client has, at most to the end of the file.
    pub async fn read(
        &self,
        inode: &ActiveInode,
        offset: FileOffset,
        end: FileOffset,
    ) -> Result<FileBytes, FsError> {
        let message_max = self.osts.message_bytes_max();
        let (plan, end) = loop {
            {
                let state = inode.state();
                let end = end.min(state.end_of_file());
                if offset >= end {
                    return Ok(FileBytes {
                        end,
                        ..FileBytes::default()
                    });
                }
                match state.unsent.read(offset..end) {
                    UnsentRead::Nothing => {
                        break (state.plan_read(inode.ino, offset, end, message_max), end);
                    }
                    UnsentRead::All(segments) => {
                        return Ok(FileBytes {
                            segments,
                            is_short: false,
                            end,
                        });
                    }
                    UnsentRead::Part => {}
                }
            }
            let _in_errors = self.flush(inode).await;
        };
        let mut read = match plan {
            ReadPlan::Inline(bytes, zeros) => {
                let mut read = FileBytes::default();
                read.push(bytes);
                read.push_zeros(zeros);
                read
            }
            ReadPlan::Chunks(chunks) => self.read_chunks(inode, &chunks).await?,
        };
        read.end = end;
        Ok(read)
    }

    /// Reads a range of which every byte existed when the file was loaded. None if not all of them did or do.
    pub async fn read_hinted(
        &self,
        inode: &ActiveInode,
        offset: FileOffset,
        end: FileOffset,
    ) -> Option<FileBytes> {
        let message_max = self.osts.message_bytes_max();
        let plan = inode
            .state()
            .plan_hinted_read(inode.ino, offset, end, message_max);
        let mut read = self.read_chunks(inode, &plan?).await.ok()?;
        read.end = end;
        (!read.is_short).then_some(read)
    }

    async fn read_chunks(
        &self,
        inode: &ActiveInode,
        chunks: &[StripeChunk],
    ) -> Result<FileBytes, FsError> {
        let mut read = FileBytes {
            segments: Vec::with_capacity(2),
            ..FileBytes::default()
        };
        if let [chunk] = chunks {
            let bytes = self.read_chunk(inode, chunk).await?;
            read.push_chunk(chunk, bytes);
        } else {
            let running = chunks.iter().map(|chunk| self.read_chunk(inode, chunk));
            let all = join::all(running.collect()).await;
            for (chunk, bytes) in chunks.iter().zip(all) {
                read.push_chunk(chunk, bytes?);
            }
        }
        Ok(read)
    }

    /// The object's bytes of a chunk: fewer where the object ends, none if it does not exist.
    async fn read_chunk(&self, inode: &ActiveInode, chunk: &StripeChunk) -> Result<Bytes, FsError> {
        tracing::trace!(target: "walk", file = file!(), "read_chunk");
        if chunk.presence == Presence::Never {
            return Ok(Bytes::new());
        }
        if !chunk.is_mirrored {
            return self.read_object(inode, chunk).await;
        }
        match self.read_any_copy(inode, chunk).await {
            Err(error) if may_be_divided(&error) && halves(chunk).is_some() => {
                self.read_in_parts(inode, chunk).await
            }
            read => read,
        }
    }

    /// Reads a chunk of which no copy is intact: each part from a copy that is intact there.
    ///
    /// # Errors
    /// If a block is damaged in all copies.
    async fn read_in_parts(
        &self,
        inode: &ActiveInode,
        chunk: &StripeChunk,
    ) -> Result<Bytes, FsError> {
        let mut whole = BytesMut::new();
        // The last one is next.
        let mut parts: Vec<StripeChunk> = halves(chunk).into_iter().flatten().rev().collect();
        while let Some(part) = parts.pop() {
            match (self.read_any_copy(inode, &part).await, halves(&part)) {
                (Ok(bytes), _) => {
                    whole.extend_from_slice(&bytes);
                    if (bytes.len() as u64) < part.len {
                        break;
                    }
                }
                (Err(error), Some([first, second])) if may_be_divided(&error) => {
                    parts.extend([second, first]);
                }
                (Err(error), _) => return Err(error),
            }
        }
        Ok(whole.freeze())
    }

    /// The bytes of a chunk of a mirrored stripe, all of one copy.
    async fn read_any_copy(
        &self,
        inode: &ActiveInode,
        chunk: &StripeChunk,
    ) -> Result<Bytes, FsError> {
        let read = |member: MemberObject| async move {
            let chunk = StripeChunk {
                ost: member.ost,
                object: member.object,
                index: member.index,
                // What exists of one member exists of all.
                presence: chunk.presence,
                ..*chunk
            };
            self.read_object(inode, &chunk).await
        };
        let own = MemberObject {
            component: chunk.component,
            index: chunk.index,
            ost: chunk.ost,
            object: chunk.object,
            presence: chunk.presence,
        };
        self.read_members(inode, own, read).await
    }

    async fn read_object(
        &self,
        inode: &ActiveInode,
        chunk: &StripeChunk,
    ) -> Result<Bytes, FsError> {
        // Up to the end of the checksum block: then a short reply shows where the object ends, and its last block can be checked.
        let requested = (chunk.at.0 + chunk.len).next_multiple_of(CHECKSUM_BLOCK) - chunk.at.0;
        let requested = requested.min(PAYLOAD_MAX.0);
        // On the second try the target verifies the checksum too, so that it records the damage in its status.
        for checksum_check in [ChecksumCheck::ByRequester, ChecksumCheck::ByBoth] {
            let op = data::DataOp::Read {
                object: chunk.object,
                at: chunk.at,
                len: requested,
                existence: required_existence(chunk.presence),
                checksum_check,
            };
            let data::DataReplyBody::Data { data, checksums } =
                self.osts.call(chunk.ost, op).await?
            else {
                return reply::unexpected("read");
            };
            if verify::matches(&data, chunk.at, ByteCount(requested), &checksums) {
                let len = data.len().min(chunk.len as usize);
                return Ok(data.slice(..len));
            }
            tracing::warn!(ino = %inode.ino, object = %chunk.object, ost = %chunk.ost, ?checksum_check, "bytes read from the OST do not match their checksum");
            Counters::add(&self.counters.checksum_retries, 1);
        }
        Err(FsError::ObjectDamaged {
            ost: chunk.ost,
            object: chunk.object,
            damage: ObjectDamage::Checksum,
        })
    }
}

/// The chunk in two parts that end at a checksum block. None of a chunk within one block.
fn halves(chunk: &StripeChunk) -> Option<[StripeChunk; 2]> {
    let middle = (chunk.at.0 + chunk.len / 2).next_multiple_of(CHECKSUM_BLOCK);
    let middle = match middle < chunk.at.0 + chunk.len {
        true => middle,
        false => middle - CHECKSUM_BLOCK,
    };
    let first = middle.checked_sub(chunk.at.0).filter(|len| *len > 0)?;
    Some([
        StripeChunk {
            len: first,
            ..*chunk
        },
        StripeChunk {
            at: ObjectOffset(middle),
            len: chunk.len - first,
            buffer_offset: chunk.buffer_offset + first,
            ..*chunk
        },
    ])
}

/// Whether parts of the chunk may be intact although no copy of all of it is.
fn may_be_divided(error: &FsError) -> bool {
    matches!(
        error,
        FsError::ObjectDamaged {
            damage: ObjectDamage::Checksum | ObjectDamage::Unreadable | ObjectDamage::Short,
            ..
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::{Generation, InodeId, ObjectId, OstId};

    fn chunk(at: u64, len: u64) -> StripeChunk {
        StripeChunk {
            ost: OstId(1),
            object: ObjectId {
                ino: InodeId(1 << 20),
                generation: Generation(1),
                stripe: 0,
            },
            component: 0,
            index: 0,
            at: ObjectOffset(at),
            len,
            buffer_offset: 7,
            presence: Presence::Present,
            is_mirrored: true,
        }
    }

    #[test]
    fn halves_end_at_checksum_blocks_and_one_block_has_none() {
        let at_block_ends = [
            ((0, 5_000), Some(4_096)),
            ((0, 1 << 20), Some(1 << 19)),
            ((100, 4_000), Some(4_096)),
            ((4_000, 200), Some(4_096)),
            ((4_096, 8_192), Some(8_192)),
            ((0, 8_191), Some(4_096)),
            ((0, 4_096), None),
            ((8_192, 1), None),
            ((8_200, 4_000), None),
        ];
        for ((at, len), middle) in at_block_ends {
            let found = halves(&chunk(at, len)).map(|[first, second]| {
                assert_eq!((first.at.0, first.buffer_offset), (at, 7));
                assert_eq!(second.at.0, at + first.len);
                assert_eq!(first.len + second.len, len);
                assert_eq!(second.buffer_offset, 7 + first.len);
                second.at.0
            });
            assert_eq!(found, middle, "{at}, {len}");
        }
    }
}
