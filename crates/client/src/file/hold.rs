//! Holding a file for writing: the server records it, lays the file out, and bytes of the inode move into objects.

use super::state::Home;
use super::table::File;
use crate::answer;
use crate::metrics::Counters;
use crate::service::Client;
use bytes::Bytes;
use gupfs_proto::meta::Op;
use gupfs_proto::refusal::ObjectDamage;
use gupfs_proto::{Caller, Refusal};

impl Client {
    /// Makes the file ready for writes to its objects, and takes privileges away that the write ends. The caller has the
    /// whole file for itself unless it is ready.
    pub(super) async fn hold(&self, inode: &File, kill_privileges: bool) -> Result<(), Refusal> {
        let is_held = || {
            let state = inode.state();
            state.is_ready() && !state.has_privileges(kill_privileges)
        };
        if is_held() {
            return Ok(());
        }
        let _telling = inode.telling.lock().await;
        if is_held() {
            return Ok(());
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
        let inline = {
            let mut state = inode.state();
            state.begun(opened);
            state.took_privileges(kill_privileges);
            state.inline().clone()
        };
        if !inline.is_empty() {
            self.spill(inode, inline).await?;
        }
        debug_assert_eq!(inode.state().home(), Home::Objects);
        Ok(())
    }

    /// Moves the inode's bytes into objects. If they were promised to survive a power cut, data comes before record: were
    /// the record without them to survive and the objects not, they would be nowhere.
    async fn spill(&self, inode: &File, inline: Bytes) -> Result<(), Refusal> {
        loop {
            self.spill_to_objects(inode, &inline).await?;
            match self.tell_spilled(inode).await {
                // To another, who has opened the file meanwhile.
                Err(Refusal::NotSynced) if !inode.state().is_inline_promised() => {
                    inode.state().promise_inline();
                }
                told => return told,
            }
        }
    }

    /// Writes them there, and syncs them if they were promised.
    async fn spill_to_objects(&self, inode: &File, inline: &Bytes) -> Result<(), Refusal> {
        loop {
            let put = self.put(inode, 0, inline).await;
            if let Some(refusal) = put.refusal {
                return Err(refusal);
            }
            // Looked at when the bytes are in the objects: a sync that begins now finds them there.
            if !inode.state().is_inline_promised() {
                return Ok(());
            }
            match self.sync_unsynced(inode).await {
                Ok(()) => return Ok(()),
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
