//! Writing to objects: all chunks at once, each with its checksums.

use super::relayed::ChangeAttempt;
use super::{ChangedObject, ObjectIo, required_existence, verify};
use crate::inodes::{ActiveInode, MemberObject};
use crate::join;
use crate::reply;
use bytes::Bytes;
use gupfs_proto::data::{DataOp, DataReply, ObjectOwner};
use gupfs_proto::{ByteCount, FileOffset, FsError, OstId, StripeChunk};
use std::sync::Arc;

/// How many bytes of one write were written from its start, and its first error.
pub struct WriteProgress {
    pub written: ByteCount,
    pub error: Option<FsError>,
}

/// What a write of a chunk needs to know of the file.
#[derive(Clone, Copy)]
struct WrittenFile {
    owner: ObjectOwner,
    /// Other clients may write the file at the same time.
    has_other_writers: bool,
    has_mirrors: bool,
    space: WriteSpace,
}

/// The space of a target into which bytes are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WriteSpace {
    /// Space that no session has reserved.
    Free,
    /// What the target keeps for this client.
    Reserved,
}

impl ObjectIo {
    /// Writes `data` at `offset` of the file; the caller updates size and time.
    pub async fn write(
        &self,
        inode: &ActiveInode,
        offset: FileOffset,
        data: &Bytes,
    ) -> WriteProgress {
        tracing::trace!(target: "walk", file = file!(), "write");
        self.write_into(WriteSpace::Free, inode, offset, data).await
    }

    /// The same for unsent bytes, whose space is reserved.
    pub async fn write_reserved(
        &self,
        inode: &ActiveInode,
        offset: FileOffset,
        data: &Bytes,
    ) -> WriteProgress {
        tracing::trace!(target: "walk", file = file!(), "write_reserved");
        let space = WriteSpace::Reserved;
        self.write_into(space, inode, offset, data).await
    }

    async fn write_into(
        &self,
        space: WriteSpace,
        inode: &ActiveInode,
        offset: FileOffset,
        data: &Bytes,
    ) -> WriteProgress {
        let (chunks, file) = {
            let mut state = inode.state();
            let has_mirrors = state.layout().is_mirrored();
            let message_max = match has_mirrors {
                true => self.osts.mirrored_bytes_max(),
                false => self.osts.message_bytes_max(),
            };
            let chunks =
                state.plan_write(inode.ino, offset, ByteCount(data.len() as u64), message_max);
            let file = WrittenFile {
                owner: state.owner(),
                has_other_writers: state.has_concurrent_write_lease(),
                has_mirrors,
                space,
            };
            (chunks, file)
        };
        if let [(chunk, last)] = chunks[..]
            && !file.has_mirrors
        {
            let stat = self.write_chunk(&chunk, last, data, file).await;
            return collect_write_replies(inode, [(chunk, stat)]);
        }
        let running = chunks.into_iter().map(|(chunk, last)| async move {
            let stat = match file.has_mirrors {
                true => self.write_members(inode, &chunk, last, data, file).await,
                false => self.write_chunk(&chunk, last, data, file).await,
            };
            (chunk, stat)
        });
        let stats = join::all(running.collect()).await;
        collect_write_replies(inode, stats)
    }

    /// Writes a chunk to all full members of its stripe; returns the first one's reply.
    async fn write_members(
        &self,
        inode: &ActiveInode,
        chunk: &StripeChunk,
        last: bool,
        data: &Bytes,
        file: WrittenFile,
    ) -> Result<ChangedObject, FsError> {
        tracing::trace!(target: "walk", file = file!(), "write_members");
        let is_reserved = file.space == WriteSpace::Reserved;
        let write = |member: MemberObject, attempt: Arc<ChangeAttempt>| async move {
            if !file.has_other_writers {
                let op = |member: MemberObject| {
                    write_op(&of_member(chunk, member), last, data, file.owner)
                };
                let len = ByteCount(chunk.len);
                let relayed = self.write_by_relay(&attempt, member, len, is_reserved, op);
                if let Some(written) = relayed.await {
                    return Ok(written);
                }
            }
            let chunk = of_member(chunk, member);
            self.write_chunk(&chunk, last, data, file).await
        };
        let written = self.change_members(inode, chunk.object, write).await?;
        let mut state = inode.state();
        for (member, stat) in &written {
            state.objects.written(member.component, member.index, *stat);
        }
        let first = written.first().map(|(_, stat)| *stat);
        first.ok_or_else(|| FsError::Malformed("a write without a member".into()))
    }

    /// `last`: the object has no bytes behind the chunk.
    async fn write_chunk(
        &self,
        chunk: &StripeChunk,
        last: bool,
        data: &Bytes,
        file: WrittenFile,
    ) -> Result<ChangedObject, FsError> {
        tracing::trace!(target: "walk", file = file!(), "write_chunk");
        let op = write_op(chunk, last, data, file.owner);
        let reply = match (file.has_other_writers, file.space) {
            (true, _) => self.call_numbered_for_space(chunk.ost, op).await,
            (false, WriteSpace::Free) => self.call_for_space(chunk.ost, op).await,
            (false, WriteSpace::Reserved) => self.osts.call_reserved(chunk.ost, op).await,
        };
        reply::written("write", reply?)
    }

    /// Calls an OST for a change that needs space. If there is none but what the target keeps for this client, the client gives that back.
    pub(super) async fn call_for_space(&self, ost: OstId, op: DataOp) -> DataReply {
        if !self.osts.reserved_space().has_spare(ost) {
            return self.osts.call(ost, op).await;
        }
        let reply = self.osts.call(ost, op.clone()).await;
        match reply == Err(FsError::NoSpace) && self.osts.return_spare_space(ost).await {
            true => self.osts.call(ost, op).await,
            false => reply,
        }
    }

    async fn call_numbered_for_space(&self, ost: OstId, op: DataOp) -> DataReply {
        if !self.osts.reserved_space().has_spare(ost) {
            return self.osts.call_numbered(ost, op).await;
        }
        let reply = self.osts.call_numbered(ost, op.clone()).await;
        match reply == Err(FsError::NoSpace) && self.osts.return_spare_space(ost).await {
            true => self.osts.call_numbered(ost, op).await,
            false => reply,
        }
    }
}

/// The chunk's bytes at another member of its stripe.
fn of_member(chunk: &StripeChunk, member: MemberObject) -> StripeChunk {
    StripeChunk {
        ost: member.ost,
        object: member.object,
        index: member.index,
        presence: member.presence,
        ..*chunk
    }
}

fn write_op(chunk: &StripeChunk, last: bool, data: &Bytes, owner: ObjectOwner) -> DataOp {
    let bytes =
        data.slice(chunk.buffer_offset as usize..(chunk.buffer_offset + chunk.len) as usize);
    DataOp::Write {
        object: chunk.object,
        at: chunk.at,
        checksums: verify::sums_of(&bytes, chunk.at, last),
        data: bytes,
        existence: required_existence(chunk.presence),
        owner,
    }
}

/// Applies the replies to the state, in file order: `written` counts the bytes before the first failure.
fn collect_write_replies(
    inode: &ActiveInode,
    stats: impl IntoIterator<Item = (StripeChunk, Result<ChangedObject, FsError>)>,
) -> WriteProgress {
    tracing::trace!(target: "walk", file = file!(), "collect_write_replies");
    let mut progress = WriteProgress {
        written: ByteCount(0),
        error: None,
    };
    let mut state = inode.state();
    for (chunk, stat) in stats {
        match stat {
            Ok(stat) => {
                if !state.objects.is_mirrored(chunk.component) {
                    state.objects.written(chunk.component, chunk.index, stat);
                }
                if progress.error.is_none() {
                    progress.written += ByteCount(chunk.len);
                }
            }
            Err(error) => progress.error = progress.error.or(Some(error)),
        }
    }
    progress
}
