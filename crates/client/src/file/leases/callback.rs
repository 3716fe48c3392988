//! Glimpse, revoke and downgrade: another client requests the attributes of a file with a write lease here, or its lease, or wants to write
//! beside this client.

use super::FileLeases;
use crate::inodes::ActiveInode;
use crate::limits::{PAGES_KEPT_MIN, WRITE_PAUSE_MAX, WRITE_TURN, WRITE_TURN_CHECK};
use gupfs_proto::{FsError, InodeId, OstId};

impl FileLeases {
    /// Glimpse: when this returns, the server knows this client's writes so far.
    pub async fn answer_glimpse(&self, ino: InodeId) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "answer_glimpse");
        let Some(inode) = self.inodes.find(ino) else {
            return Ok(());
        };
        if inode.state().layout().is_mirrored() {
            // A read of another client may have found a write under way at one member. Its client asks before it returns the bytes: all members
            // have them then, and no later read returns older ones.
            inode.range_locks.wait_for_changes().await;
        }
        // A write that is not answered yet need not be reported, and none is answered before its `BeginWrite`.
        if inode.state().owes_report() {
            self.release_if_small(&inode).await?;
            let _reporting = inode.reporting.lock().await;
            self.report_attrs(&inode).await?;
        }
        Ok(())
    }

    /// Revoke: when this returns, the server has this client's last report, and may grant the lease to another client.
    pub async fn answer_revoke(&self, ino: InodeId) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "answer_revoke");
        let Some(inode) = self.inodes.find(ino) else {
            return Ok(());
        };
        self.wait_for_turn(&inode).await;
        // Waits for operations in progress: also for a `BeginWrite` that is not answered yet, and for its write.
        let _all = self.lock_without_pages(&inode, PAGES_KEPT_MIN).await;
        let _reporting = inode.reporting.lock().await;
        if inode.state().has_write_lease() {
            inode.state().note_contention(self.clock.boot());
        }
        self.release_write_lease(&inode).await
    }

    /// A program that writes without a pause goes on for its turn: taking the lease from another client costs more than a write.
    async fn wait_for_turn(&self, inode: &ActiveInode) {
        let changes = || {
            let state = inode.state();
            state
                .lease_since()
                .map(|since| (since, state.data_changes()))
        };
        let is_writing = inode.range_locks.is_changing() || {
            let added_at = inode.state().unsent.added_at();
            added_at.is_some_and(|at| self.clock.boot().since(at) <= WRITE_PAUSE_MAX)
        };
        let Some((since, mut before)) = changes().filter(|_| is_writing) else {
            return;
        };
        let end = since + WRITE_TURN;
        while self.clock.boot() < end {
            self.clock.sleep(WRITE_TURN_CHECK).await;
            match changes() {
                Some((same, now)) if same == since && now != before => before = now,
                _ => return,
            }
        }
    }

    /// Members on this OST are stale: this client neither reads nor writes them from now on.
    pub fn leave_out_members(&self, ino: InodeId, ost: OstId) {
        let Some(inode) = self.inodes.find(ino) else {
            return;
        };
        inode.state().objects.leave_out_members(ost);
        inode.members_changed();
    }

    /// These targets are about to be stopped: no change of a mirrored file waits for them.
    pub fn expect_stop(&self, osts: &[OstId]) {
        self.objects.expect_stop(osts);
    }

    /// Which members are stale may have changed: a reply of one that was asked before counts for nothing.
    pub fn note_members_changed(&self, ino: InodeId) {
        if let Some(inode) = self.inodes.find(ino) {
            inode.members_changed();
        }
    }

    /// Downgrade: when this returns, the server may let other clients write beside this one.
    pub async fn answer_downgrade(&self, ino: InodeId) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "answer_downgrade");
        let Some(inode) = self.inodes.find(ino) else {
            return Ok(());
        };
        // As for a revoke: also bytes and pages that are kept under the exclusive lease go.
        let _all = self.lock_without_pages(&inode, PAGES_KEPT_MIN).await;
        let _reporting = inode.reporting.lock().await;
        self.downgrade_write_lease(&inode).await
    }
}
