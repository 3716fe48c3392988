//! Acquiring a write lease: the server records it and makes a layout, and the client moves inline data into objects.

use super::FileLeases;
use crate::file::objects::WriteProgress;
use crate::inodes::{ActiveInode, DataLocation};
use crate::limits::PIGGYBACK_MAX;
use crate::metrics::Counters;
use crate::reply;
use bytes::{Bytes, BytesMut};
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::meta::{MetaOp, OpenInfo, WritePosition};
use gupfs_proto::{ByteCount, Caller, FileOffset, FsError};

/// A write sent in one message with the inline data: where it begins, and how far it got.
pub struct PiggybackedWrite {
    pub from: FileOffset,
    pub progress: WriteProgress,
}

impl FileLeases {
    /// Acquires the write lease, makes the file ready for writes to its objects, and clears the privileges that the write clears.
    /// The caller has locked the whole file unless it is ready.
    pub async fn acquire_write_lease(
        &self,
        inode: &ActiveInode,
        kill_privileges: bool,
    ) -> Result<(), FsError> {
        let nothing = Bytes::new();
        let lease = self.acquire_for_write(inode, kill_privileges, WritePosition::End, &nothing);
        lease.await.map(|_| ())
    }

    /// The same for a write. If the write directly follows the inline data, both go in one message; then returns how far the write
    /// got.
    pub async fn acquire_for_write(
        &self,
        inode: &ActiveInode,
        kill_privileges: bool,
        at: WritePosition,
        data: &Bytes,
    ) -> Result<Option<PiggybackedWrite>, FsError> {
        tracing::trace!(target: "walk", file = file!(), "acquire_for_write");
        let is_leased = || {
            let state = inode.state();
            state.is_ready(at) && !state.must_kill_privileges(kill_privileges)
        };
        if is_leased() {
            return Ok(None);
        }
        let _reporting = inode.reporting.lock().await;
        if is_leased() {
            return Ok(None);
        }
        let (opened, is_concurrent) = self.begin_write(inode, kill_privileges, at).await?;
        opened.layout.check()?;
        if opened.layout.is_empty() {
            return reply::unexpected("begin_write");
        }
        if is_concurrent {
            self.take_concurrent_lease(inode, opened);
            inode.state().set_privileges_killed(kill_privileges);
            self.mds.write_lease_acquired(inode.ino).await;
            return Ok(None);
        }
        let (inline, follows) = {
            let mut state = inode.state();
            if !state.has_exclusive_write_lease() {
                state.set_lease_since(self.clock.boot());
            }
            state.lease_acquired(opened);
            state.set_privileges_killed(kill_privileges);
            let inline = state.inline().clone();
            let end = FileOffset(inline.len() as u64);
            let follows = state.end_of_file() == end && state.offset_of(at) == end;
            (inline, follows)
        };
        self.mds.write_lease_acquired(inode.ino).await;
        let piggybacks = follows && !data.is_empty() && data.len() <= PIGGYBACK_MAX;
        let piggybacked = match (inline.is_empty(), piggybacks) {
            (true, _) => None,
            (false, true) => Some(self.spill(inode, &inline, data).await?),
            (false, false) => {
                self.spill(inode, &inline, &Bytes::new()).await?;
                None
            }
        };
        debug_assert_eq!(inode.state().data_location(), DataLocation::Objects);
        Ok(piggybacked)
    }

    /// The server's reply, and whether the lease is concurrent. The caller has locked `reporting`, and the whole file unless this client
    /// has a lease already.
    async fn begin_write(
        &self,
        inode: &ActiveInode,
        kill_privileges: bool,
        at: WritePosition,
    ) -> Result<(OpenInfo, bool), FsError> {
        let (is_append_only, has_exclusive, contended) = {
            let state = inode.state();
            (
                state.is_append_only(),
                state.has_exclusive_write_lease(),
                state.is_contended(self.clock.boot()),
            )
        };
        let needs_exclusive = match at {
            WritePosition::Offset(_) => is_append_only || has_exclusive || !self.mds.is_shared(),
            WritePosition::End => true,
        };
        let ino = inode.ino;
        let at_offset = MetaOp::BeginWriteAt {
            ino,
            kill_privileges,
            contended,
        };
        if !needs_exclusive {
            let reply = self.mds.call(&Caller::root(), at_offset).await?;
            return reply::write_begun("begin_write_at", reply);
        }
        loop {
            // A client with a lease does not wait for others: two could wait for each other.
            self.release_concurrent_lease(inode).await?;
            let op = MetaOp::BeginWrite {
                ino,
                kill_privileges,
            };
            match self.mds.call(&Caller::root(), op).await {
                // It has a concurrent lease that this client does not know of: the reply that granted it was lost.
                Err(FsError::Busy) if self.mds.is_shared() => {
                    let reply = self.mds.call(&Caller::root(), at_offset.clone()).await?;
                    let (opened, is_concurrent) = reply::write_begun("begin_write_at", reply)?;
                    if !is_concurrent {
                        return Ok((opened, false));
                    }
                    inode.state().concurrent_lease_acquired(opened);
                }
                reply => return Ok((reply::opened("begin_write", reply?)?, false)),
            }
        }
    }

    /// Moves inline data into objects. If a sync has promised that it survives a power loss, the objects are synced before the
    /// record drops it: if the record without the data survived and the objects did not, the data would be lost.
    ///
    /// `more` is written behind it.
    async fn spill(
        &self,
        inode: &ActiveInode,
        inline: &Bytes,
        more: &Bytes,
    ) -> Result<PiggybackedWrite, FsError> {
        // Leftovers of an earlier attempt that failed: the block checksums would cover bytes that are not written now.
        self.truncate_leftovers(inode).await?;
        let inline_len = ByteCount(inline.len() as u64);
        let all = match more.is_empty() {
            true => inline.clone(),
            false => BytesMut::from_iter(inline.iter().chain(more)).freeze(),
        };
        loop {
            let mut progress = self.spill_to_objects(inode, &all, inline_len).await?;
            match self.report_spilled(inode).await {
                // Another client has opened the file and synced it meanwhile.
                Err(FsError::NotSynced) if !inode.state().inline_may_be_durable() => {
                    inode.state().set_inline_may_be_durable();
                }
                reported => {
                    reported?;
                    progress.written = progress.written - inline_len;
                    let from = FileOffset(inline_len.0);
                    return Ok(PiggybackedWrite { from, progress });
                }
            }
        }
    }

    /// Writes the bytes to objects, and syncs them if the inline data may be durable. Fails unless the first `needed` bytes are
    /// written.
    async fn spill_to_objects(
        &self,
        inode: &ActiveInode,
        all: &Bytes,
        needed: ByteCount,
    ) -> Result<WriteProgress, FsError> {
        loop {
            let progress = self.objects.write(inode, FileOffset(0), all).await;
            match &progress.error {
                Some(error) if progress.written < needed => return Err(error.clone()),
                _ => {}
            }
            // Checked after the bytes are in the objects: a sync that begins from now on finds them there.
            if !inode.state().inline_may_be_durable() {
                return Ok(progress);
            }
            match self.objects.sync(inode).await {
                Ok(()) => return Ok(progress),
                // The inode still has the inline data: write the objects again.
                Err(FsError::ObjectDamaged {
                    damage: ObjectDamage::Unsynced,
                    ..
                }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn report_spilled(&self, inode: &ActiveInode) -> Result<(), FsError> {
        self.objects.stat_unknown(inode).await?;
        let pending = inode.state().attr_report(false);
        let op = MetaOp::SpillInline {
            ino: inode.ino,
            report: pending.report.clone(),
        };
        let attr = reply::changed("spilled", self.mds.call(&Caller::root(), op).await?)?;
        let mut state = inode.state();
        state.clear_inline();
        state.report_accepted(&pending);
        if let Some(attr) = attr {
            state.note_own_update(attr);
        }
        Counters::add(&self.counters.spills, 1);
        Ok(())
    }
}
