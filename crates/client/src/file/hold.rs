//! Holding a file for writing: the server records it, lays the file out, and bytes of the inode move into objects.

use super::state::Home;
use super::table::File;
use super::write::Put;
use crate::answer;
use crate::limits::ALONG_MOST;
use crate::metrics::Counters;
use crate::service::Client;
use bytes::{Bytes, BytesMut};
use gupfs_proto::meta::Op;
use gupfs_proto::refusal::ObjectDamage;
use gupfs_proto::{Caller, Refusal};

/// A write that went along with the inode's bytes: where it begins, and how far it got.
pub(super) struct Along {
    pub from: u64,
    pub put: Put,
}

impl Client {
    /// Makes the file ready for writes to its objects, and takes privileges away that the write ends. The caller has the
    /// whole file for itself unless it is ready.
    pub(super) async fn hold(&self, inode: &File, kill_privileges: bool) -> Result<(), Refusal> {
        let nothing = Bytes::new();
        let held = self.hold_to_write(inode, kill_privileges, None, &nothing);
        held.await.map(|_| ())
    }

    /// The same for a write (`wish`: where; None is the end). What follows the inode's bytes directly moves with them, in one
    /// message: then how far the write got, and it begins behind those bytes.
    pub(super) async fn hold_to_write(
        &self,
        inode: &File,
        kill_privileges: bool,
        wish: Option<u64>,
        data: &Bytes,
    ) -> Result<Option<Along>, Refusal> {
        let is_held = || {
            let state = inode.state();
            state.is_ready() && !state.has_privileges(kill_privileges)
        };
        if is_held() {
            return Ok(None);
        }
        let _telling = inode.telling.lock().await;
        if is_held() {
            return Ok(None);
        }
        let op = Op::BeginWrite {
            ino: inode.ino,
            kill_privileges,
        };
        let opened = answer::opened("begin_write", self.ask(&Caller::root(), op).await?)?;
        opened.layout.check()?;
        if opened.layout.is_empty() {
            return answer::unexpected("begin_write");
        }
        let (inline, size) = {
            let mut state = inode.state();
            state.begun(opened);
            state.took_privileges(kill_privileges);
            (state.inline().clone(), state.size)
        };
        let from = inline.len() as u64;
        let follows = size == from && wish.unwrap_or(size) == from;
        let goes_along = follows && !data.is_empty() && data.len() <= ALONG_MOST;
        let along = match (from, goes_along) {
            (0, _) => None,
            (_, true) => Some(self.spill(inode, &inline, data).await?),
            (_, false) => {
                self.spill(inode, &inline, &Bytes::new()).await?;
                None
            }
        };
        debug_assert_eq!(inode.state().home(), Home::Objects);
        Ok(along)
    }

    /// Moves the inode's bytes into objects. If they were promised to survive a power cut, data comes before record: were
    /// the record without them to survive and the objects not, they would be nowhere.
    ///
    /// `more` is written behind them.
    async fn spill(&self, inode: &File, inline: &Bytes, more: &Bytes) -> Result<Along, Refusal> {
        // Of an attempt before that failed: their checksums would count bytes that are not written now.
        self.cut_leftovers(inode).await?;
        let from = inline.len() as u64;
        let all = match more.is_empty() {
            true => inline.clone(),
            false => BytesMut::from_iter(inline.iter().chain(more)).freeze(),
        };
        loop {
            let mut put = self.spill_to_objects(inode, &all, from).await?;
            match self.tell_spilled(inode).await {
                // To another, who has opened the file meanwhile.
                Err(Refusal::NotSynced) if !inode.state().is_inline_promised() => {
                    inode.state().promise_inline();
                }
                told => {
                    told?;
                    put.written -= from;
                    return Ok(Along { from, put });
                }
            }
        }
    }

    /// Writes them there, and syncs them if they were promised. The first `needed` must get there.
    async fn spill_to_objects(
        &self,
        inode: &File,
        all: &Bytes,
        needed: u64,
    ) -> Result<Put, Refusal> {
        loop {
            let put = self.put(inode, 0, all).await;
            match &put.refusal {
                Some(refusal) if put.written < needed => return Err(refusal.clone()),
                _ => {}
            }
            // Looked at when the bytes are in the objects: a sync that begins now finds them there.
            if !inode.state().is_inline_promised() {
                return Ok(put);
            }
            match self.sync_unsynced(inode).await {
                Ok(()) => return Ok(put),
                // The inode has them still: once more.
                Err(Refusal::ObjectDamaged {
                    what: ObjectDamage::Unsynced,
                    ..
                }) => {}
                Err(refusal) => return Err(refusal),
            }
        }
    }

    async fn tell_spilled(&self, inode: &File) -> Result<(), Refusal> {
        self.learn(inode).await?;
        let word = inode.state().word(false);
        let op = Op::Spilled {
            ino: inode.ino,
            written: word.written.clone(),
        };
        let attr = answer::changed("spilled", self.ask(&Caller::root(), op).await?)?;
        let mut state = inode.state();
        state.spilled();
        state.heard(&word);
        if let Some(attr) = attr {
            state.said(attr);
        }
        Counters::add(&self.counters.spills, 1);
        Ok(())
    }
}
