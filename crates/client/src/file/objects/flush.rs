//! Flushing: object servers get the bytes that programs have written and this client still keeps.

use super::ObjectIo;
use crate::inodes::ActiveInode;
use crate::join;
use crate::limits::{FLUSH_RETRY_MAX, FLUSH_RETRY_PAUSE};
use crate::metrics::Counters;
use bytes::Bytes;
use gupfs_proto::{FileOffset, FsError};

/// While it exists, the inode has no unsent bytes and takes none: writes go to the object servers.
pub struct WrittenThrough<'a>(&'a ActiveInode);

impl Drop for WrittenThrough<'_> {
    fn drop(&mut self) {
        self.0.state().unsent.end_hold();
    }
}

/// Bytes that are being sent; if it is dropped half way, they wait again.
struct BytesBeingSent<'a> {
    inode: &'a ActiveInode,
    is_finished: bool,
}

impl Drop for BytesBeingSent<'_> {
    fn drop(&mut self) {
        let mut state = self.inode.state();
        match self.is_finished {
            true => state.unsent.finish_sending(),
            false => state.unsent.undo_sending(),
        }
    }
}

impl ObjectIo {
    /// When this returns, the object servers have what was written before the call; or it is lost, and each open file of the inode gets the
    /// error at its next fsync or close.
    ///
    /// # Errors
    /// The same error.
    pub async fn flush(&self, inode: &ActiveInode) -> Result<(), FsError> {
        let is_empty = inode.state().unsent.is_empty();
        match is_empty {
            true => Ok(()),
            false => self.flush_unsent(inode).await,
        }
    }

    async fn flush_unsent(&self, inode: &ActiveInode) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "flush");
        // One at a time: a later write of the same bytes is sent after the earlier one was answered.
        let _flushing = inode.flushing.lock().await;
        let parts = inode.state().unsent.start_sending();
        if parts.is_empty() {
            return Ok(());
        }
        let mut sent = BytesBeingSent {
            inode,
            is_finished: false,
        };
        let running = parts.iter().map(|part| self.send(inode, part));
        let results = join::all(running.collect()).await;
        Counters::add(&self.counters.flushes, 1);
        let mut lost = Ok(());
        for ((offset, bytes), result) in parts.iter().zip(results) {
            let Err(error) = result else { continue };
            tracing::error!(ino = %inode.ino, %offset, bytes = bytes.len(), %error, "bytes that a program has written are lost: no object server took them");
            let mut state = inode.state();
            state.errors.record(error.clone());
            state.unsent.set_failed(true);
            lost = Err(error);
        }
        sent.is_finished = true;
        lost
    }

    /// Flushes, and keeps the inode without unsent bytes: what is told about its size must be true of its objects.
    pub async fn write_through<'a>(&self, inode: &'a ActiveInode) -> WrittenThrough<'a> {
        inode.state().unsent.hold();
        let held = WrittenThrough(inode);
        let _in_errors = self.flush(inode).await;
        held
    }

    /// Repeats while the target may come back, or the metadata server, which issues the capability: the program that has written the bytes
    /// cannot. A server whose store has failed ends, and is started again.
    async fn send(
        &self,
        inode: &ActiveInode,
        (offset, bytes): &(FileOffset, Bytes),
    ) -> Result<(), FsError> {
        let given_up = self.clock.boot() + FLUSH_RETRY_MAX;
        loop {
            self.osts.wait_for_valid_session().await?;
            match self.write_reserved(inode, *offset, bytes).await.error {
                None => return Ok(()),
                Some(error) if self.may_succeed_later(&error) && self.clock.boot() < given_up => {
                    self.clock.sleep(FLUSH_RETRY_PAUSE).await;
                }
                Some(error) => return Err(error),
            }
        }
    }

    /// Whether the target may come back.
    fn may_succeed_later(&self, error: &FsError) -> bool {
        match error {
            FsError::TargetDown { ost, .. } => !self.osts.is_gone(*ost),
            FsError::TimedOut(_) | FsError::StoreFailed(_) => true,
            _ => false,
        }
    }
}
