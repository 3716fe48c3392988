//! Write-behind: small writes under the exclusive write lease stay in memory for a moment, and go to the object servers together.
//!
//! Other clients never see that: before this client tells the metadata server anything about the file, or gives up its lease, it flushes.

use super::leases::FileLeases;
use super::objects::ObjectIo;
use crate::inodes::{ActiveInode, InodePin, InodeState, InodeTable, UnsentTotal};
use crate::join;
use crate::limits::{
    FLUSH_BYTES, FLUSH_DELAY, UNSENT_FILE_MAX, UNSENT_TOTAL_MAX, WRITE_BEHIND_MAX,
};
use crate::osts::OstCalls;
use crate::reserved_space::{NeededSpace, SpaceCharges};
use crate::session::MdsSession;
use gupfs_platform::{Clock, CurrentCall, Tasks};
use gupfs_proto::meta::{SetAttr, WritePosition};
use gupfs_proto::{Attr, ByteCount, Caller, FileOffset, FsError, InodeId};
use std::sync::Arc;

pub struct WriteBehind {
    pub(super) is_on: bool,
    pub(super) mds: Arc<MdsSession>,
    pub(super) inodes: Arc<InodeTable>,
    pub(super) leases: Arc<FileLeases>,
    pub(super) objects: Arc<ObjectIo>,
    pub(super) clock: Clock,
    pub(super) tasks: Tasks,
    pub(super) osts: Arc<OstCalls>,
    pub(super) total: Arc<UnsentTotal>,
}

impl WriteBehind {
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Takes a write. None if it must go to the object servers now. The caller has locked the range, and everything from the file's end on if
    /// the write moves it.
    pub fn write(
        &self,
        inode: &ActiveInode,
        at: WritePosition,
        data: &[u8],
        kill_privileges: bool,
    ) -> Option<FileOffset> {
        if !self.is_on || data.len() > WRITE_BEHIND_MAX || !self.mds.is_valid() {
            return None;
        }
        let (offset, needs_task, is_grown) = {
            let mut state = inode.state();
            let has_room = state.unsent.bytes() + data.len() <= UNSENT_FILE_MAX
                && self.total.get() + data.len() <= UNSENT_TOTAL_MAX;
            if !has_room || !state.may_write_behind(at, kill_privileges) {
                return None;
            }
            let charges = self.charge_targets(&state, inode.ino, at, data.len())?;
            let before = state.unsent.bytes() / FLUSH_BYTES;
            let now = self.clock.now();
            let offset = state.write_behind(at, data, now, &self.total, charges)?;
            state.unsent.set_added_at(self.clock.boot());
            let is_grown = state.unsent.bytes() / FLUSH_BYTES > before;
            (offset, state.unsent.needs_task(), is_grown)
        };
        tracing::trace!(target: "walk", file = file!(), "write");
        if needs_task {
            self.start_task(inode);
        } else if is_grown {
            inode.unsent_grown.notify_one();
        }
        Some(offset)
    }

    /// Takes times that a program sets as the file's owner: they wait as bytes do. None if the metadata server must set them now.
    pub fn set_times(&self, inode: &ActiveInode, caller: &Caller, set: &SetAttr) -> Option<Attr> {
        if !self.is_on || !self.mds.is_valid() {
            return None;
        }
        let uid = self.mds.uid_at_server(caller)?;
        let (attr, needs_task) = {
            let mut state = inode.state();
            let attr = state.set_times(uid, set, self.clock.now())?;
            (attr, state.unsent.needs_task())
        };
        tracing::trace!(target: "walk", file = file!(), "set_times");
        if needs_task {
            self.start_task(inode);
        }
        Some(attr)
    }

    /// Charges the write to the space that its targets keep for this client. None if one keeps too little.
    fn charge_targets(
        &self,
        state: &InodeState,
        ino: InodeId,
        at: WritePosition,
        len: usize,
    ) -> Option<SpaceCharges> {
        let needed = state.space_to_write(ino, state.offset_of(at), ByteCount(len as u64));
        let reserved_space = self.osts.reserved_space();
        let charged = reserved_space.charge(self.mds.id(), needed, self.clock.boot());
        charged.asks.into_iter().for_each(|ask| self.ask(ask));
        charged.charges
    }

    /// Asks a target for space; the writes of the meantime do not wait for the answer.
    fn ask(&self, ask: NeededSpace) {
        let osts = self.osts.clone();
        let asking = async move { osts.reserve(ask.ost, ask.bytes).await };
        self.tasks.spawn("ask a target for space", asking);
    }

    /// Starts the task that flushes the inode until nothing is unsent.
    fn start_task(&self, inode: &ActiveInode) {
        // It is open, so it is in the table.
        let Some(inode) = self.inodes.find(inode.ino) else {
            return;
        };
        let (leases, objects) = (self.leases.clone(), self.objects.clone());
        let clock = self.clock.clone();
        let flush = CurrentCall::inherit(async move {
            loop {
                tokio::select! {
                    biased;
                    () = inode.unsent_grown.notified() => {}
                    () = clock.sleep(FLUSH_DELAY) => {}
                }
                // If that fails, the bytes go to objects.
                let _ = Box::pin(leases.release_if_small(&inode)).await;
                let _in_errors = objects.flush(&inode).await;
                if let Err(error) = leases.report_set_times(&inode).await {
                    tracing::debug!(ino = %inode.ino, %error, "times that a program has set are not reported yet");
                }
                let mut state = inode.state();
                let has_more = state.has_set_times();
                if state.unsent.end_task(has_more) {
                    return;
                }
            }
        });
        self.tasks.spawn("flush written bytes", flush);
    }

    /// Bytes of all files.
    pub fn unsent_bytes(&self) -> usize {
        self.total.get()
    }

    /// Flushes this file; all files of this client if it does not know which one the program means.
    pub async fn flush(&self, ino: Option<InodeId>) {
        let inodes: Vec<InodePin> = match ino {
            Some(ino) => self.inodes.find(ino).into_iter().collect(),
            None => self.inodes.all(),
        };
        let running = inodes.iter().map(|inode| self.flush_inode(inode));
        let _in_errors = join::all(running.collect()).await;
    }

    async fn flush_inode(&self, inode: &ActiveInode) -> Result<(), FsError> {
        self.leases.release_if_small(inode).await?;
        self.objects.flush(inode).await?;
        self.leases.report_set_times(inode).await
    }
}
