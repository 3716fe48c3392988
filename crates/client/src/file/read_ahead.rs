//! Reading ahead of programs that read in order, into the cache of this client.
//!
//! Only under a lease on the file's data: without one, the bytes may be old when the program reads them.

use super::cached_read::{cache_read, lease_on_data};
use super::objects::ObjectIo;
use crate::data_cache::ByteRange;
use crate::inodes::{ActiveInode, InodeTable, OpenFile};
use crate::lease_number::LeaseNumber;
use crate::limits::{READ_AHEAD_PIECE, READ_AHEAD_TIME_MAX};
use crate::metrics::Counters;
use crate::session::MdsSession;
use gupfs_platform::{Clock, CurrentCall, Tasks};
use gupfs_proto::FileOffset;
use std::sync::Arc;
use tokio::sync::Semaphore;

pub struct ReadAheadTasks {
    pub(super) mds: Arc<MdsSession>,
    pub(super) inodes: Arc<InodeTable>,
    pub(super) objects: Arc<ObjectIo>,
    pub(super) clock: Clock,
    pub(super) tasks: Tasks,
    pub(super) counters: Arc<Counters>,
    /// One permit for each piece that may be read ahead at the same time.
    pub(super) pieces: Arc<Semaphore>,
}

impl ReadAheadTasks {
    /// A program has read the range under this lease. Starts what follows.
    pub fn after(self: &Arc<Self>, file: &OpenFile, range: &ByteRange, lease: LeaseNumber) {
        let Some(ahead) = file.streams.lock().read(range) else {
            return;
        };
        let (ino, cache) = (file.ino(), self.mds.data_cache());
        // As far as this client knows: a part behind the end is not read.
        let end = ahead.end.min(file.inode.state().end_of_file().0);
        let mut from = ahead.start;
        while from < end {
            let to = (from + 1).next_multiple_of(READ_AHEAD_PIECE).min(end);
            let piece = from..to;
            from = to;
            if cache.is_read_ahead(ino, &piece) || cache.get(ino, lease, piece.clone()).is_some() {
                continue;
            }
            let Some(inode) = self.inodes.find(ino) else {
                return;
            };
            // Above the bound the streams of this mount have enough under way.
            let Ok(permit) = self.pieces.clone().try_acquire_owned() else {
                return;
            };
            let guard = cache.start_read_ahead(ino, piece.clone());
            let (this, streams) = (self.clone(), file.streams.clone());
            let reading = CurrentCall::inherit(async move {
                let _guards = (permit, guard);
                let is_read = tokio::select! {
                    biased;
                    is_read = this.read(&inode, piece, lease) => is_read,
                    () = this.clock.sleep(READ_AHEAD_TIME_MAX) => false,
                };
                if !is_read {
                    streams.lock().restart();
                }
            });
            self.tasks.spawn("read ahead", reading);
        }
    }

    /// Whether the piece is in the cache now, for as long as the lease lasts.
    async fn read(&self, inode: &ActiveInode, piece: ByteRange, lease: LeaseNumber) -> bool {
        tracing::trace!(target: "walk", file = file!(), "read");
        let (from, to) = (FileOffset(piece.start), FileOffset(piece.end));
        // A change has locked a part of the piece, or waits for it: then there is nothing to read ahead.
        let _held = tokio::select! {
            biased;
            held = inode.range_locks.shared(from..to) => held,
            () = std::future::ready(()) => return false,
        };
        if lease_on_data(&self.mds, inode) != Some(lease) {
            return false;
        }
        let is_authoritative = inode.state().is_authoritative();
        // After an error the program reads it itself, and gets the error.
        let read = match is_authoritative {
            true => self.objects.read(inode, from, to).await.ok(),
            false => self.objects.read_hinted(inode, from, to).await,
        };
        let Some(read) = read else {
            return false;
        };
        Counters::add(&self.counters.bytes_read_ahead, to.0 - from.0);
        cache_read(&self.mds, inode, lease, from, to, &read);
        true
    }
}
