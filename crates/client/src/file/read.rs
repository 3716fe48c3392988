//! read(2): chunks from objects or inline data, zeros where nothing was written.

use super::chunks;
use super::inode_state::ReadPlan;
use super::inode_table::ActiveInode;
use super::object_calls::required_existence;
use super::open_file::OpenFile;
use crate::join;
use crate::metrics::Counters;
use crate::options::AtimeMode;
use crate::reply;
use crate::service::Client;
use crate::verify;
use bytes::Bytes;
use gupfs_proto::data::{self, ChecksumCheck};
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::limits::{CHECKSUM_BLOCK, PAYLOAD_MAX};
use gupfs_proto::{Attr, FsError, Presence, StripeChunk};

/// The bytes of holes: shared, so that reading a hole copies nothing.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// Options of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadOptions {
    /// O_NOATIME
    pub leaves_atime: bool,
}

/// The result of a read.
#[derive(Default)]
pub(super) struct ReadResult {
    pub segments: Vec<Bytes>,
    /// An object returned fewer bytes than requested: there is a hole, or the file has become shorter.
    pub is_short: bool,
    /// Its end: the end of the range or of the file.
    pub end: u64,
}

impl ReadResult {
    /// Where the object ends before the chunk does, there is a hole.
    fn push(&mut self, chunk: &StripeChunk, bytes: Bytes) {
        let missing = chunk.len - bytes.len() as u64;
        self.is_short |= missing > 0;
        push(&mut self.segments, bytes);
        push_zeros(&mut self.segments, missing);
    }
}

impl Client {
    /// Whether a read of a file with these attributes updates its access time now, so that the kernel must send it to this
    /// client.
    pub fn read_updates_atime(&self, attr: &Attr) -> bool {
        self.options
            .atime
            .updates_atime(attr, self.platform.clock.now())
    }

    /// Whether every read updates it.
    pub fn every_read_updates_atime(&self) -> bool {
        self.options.atime == AtimeMode::Always
    }

    /// The bytes of `offset .. offset + len`, as segments in order (holes are shared zeros); fewer at the end of the file, none
    /// beyond it.
    ///
    /// # Errors
    /// `ObjectDamaged` when a known object is missing, or its bytes fail their checksum twice.
    pub async fn read(
        &self,
        file: &OpenFile,
        offset: u64,
        len: u64,
        options: ReadOptions,
    ) -> Result<Vec<Bytes>, FsError> {
        self.check_session(file)?;
        let inode = &file.inode;
        let end = offset.saturating_add(len);
        let _held = inode.range_locks.shared(offset..end).await;
        let counts = {
            let mut state = inode.state();
            if len > 0
                && !options.leaves_atime
                && let Some(base) = state.server_attr()
            {
                let now = self.platform.clock.now();
                if self.options.atime.updates_atime(&state.overlay(*base), now) {
                    state.atime = Some(now);
                }
            }
            state.is_authoritative()
        };
        if counts {
            self.wait_for_valid_session().await?;
        }
        let found = match counts {
            true => self.read_by_state(inode, offset, end).await?,
            false => self.read_shared(inode, offset, end).await?,
        };
        Counters::add(&self.counters.reads, 1);
        let read = found.segments.iter().map(|bytes| bytes.len() as u64).sum();
        Counters::add(&self.counters.bytes_read, read);
        Ok(found.segments)
    }

    /// Reads by the state that this client has.
    pub(super) async fn read_by_state(
        &self,
        inode: &ActiveInode,
        offset: u64,
        end: u64,
    ) -> Result<ReadResult, FsError> {
        let (found, end) = {
            let state = inode.state();
            let end = end.min(state.size);
            if offset >= end {
                return Ok(ReadResult::default());
            }
            (state.plan_read(inode.ino, offset, end), end)
        };
        let mut read = match found {
            ReadPlan::Inline(bytes, zeros) => {
                let mut read = ReadResult::default();
                push(&mut read.segments, bytes);
                push_zeros(&mut read.segments, zeros);
                read
            }
            ReadPlan::Chunks(chunks) => self.read_chunks(inode, &chunks).await?,
        };
        read.end = end;
        Ok(read)
    }

    pub(super) async fn read_chunks(
        &self,
        inode: &ActiveInode,
        chunks: &[StripeChunk],
    ) -> Result<ReadResult, FsError> {
        let most = self.message_bytes_max();
        let parts: Vec<StripeChunk>;
        let chunks = match chunks.iter().all(|chunk| chunk.len <= most) {
            true => chunks,
            false => {
                let split = |chunk: &StripeChunk| chunks::split(*chunk, most);
                parts = chunks.iter().flat_map(split).collect();
                &parts
            }
        };
        let mut read = ReadResult {
            segments: Vec::with_capacity(2),
            ..ReadResult::default()
        };
        if let [chunk] = chunks {
            let bytes = self.read_chunk(inode, chunk).await?;
            read.push(chunk, bytes);
        } else {
            let running = chunks.iter().map(|chunk| self.read_chunk(inode, chunk));
            let all = join::all(running.collect()).await;
            for (chunk, bytes) in chunks.iter().zip(all) {
                read.push(chunk, bytes?);
            }
        }
        Ok(read)
    }

    /// The object's bytes of a chunk: fewer where the object ends, none if it does not exist.
    async fn read_chunk(&self, inode: &ActiveInode, chunk: &StripeChunk) -> Result<Bytes, FsError> {
        if chunk.presence == Presence::Never {
            return Ok(Bytes::new());
        }
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
                self.call_ost(chunk.ost, op).await?
            else {
                return reply::unexpected("read");
            };
            if verify::matches(&data, chunk.at.0, requested, &checksums) {
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
