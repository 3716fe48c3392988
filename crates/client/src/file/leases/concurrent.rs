//! Concurrent write leases: several clients write one file at given offsets, each directly to the objects.
//!
//! The object servers order writes that overlap. Size and times are the largest that any of the clients knows, and the metadata server asks
//! them all when a program wants to know. Nothing is kept in memory, and nothing is truncated behind the end of the file.

use super::FileLeases;
use crate::inodes::{ActiveInode, RangeLockGuard};
use crate::lease_number::LeaseNumber;
use crate::limits::CONCURRENT_LEASE_CHECKS;
use crate::reply;
use gupfs_proto::meta::{MetaOp, OpenInfo};
use gupfs_proto::{Caller, FsError, InodeId};
use std::ops::ControlFlow;
use tokio::sync::MutexGuard;

/// `reporting` of an inode, and the whole file if a lease was released.
pub struct ReportingLock<'a> {
    _reporting: MutexGuard<'a, ()>,
    _all: Option<RangeLockGuard<'a>>,
}

impl FileLeases {
    /// The server has granted a concurrent lease. The caller has locked `reporting`, and the whole file unless this client has the lease
    /// already.
    pub(super) fn take_concurrent_lease(&self, inode: &ActiveInode, opened: OpenInfo) {
        let before = inode.state().concurrent_lease_number();
        inode.state().concurrent_lease_acquired(opened);
        self.check_later(inode, before);
    }

    /// Reports what this client has written, and keeps a concurrent lease. The caller has locked the whole file and `reporting`.
    pub(super) async fn downgrade_write_lease(&self, inode: &ActiveInode) -> Result<(), FsError> {
        if !inode.state().has_write_lease() {
            return Ok(());
        }
        // The next writer does not know of leftovers, and they would appear when the file grows.
        self.truncate_leftovers(inode).await?;
        let _in_errors = self.objects.flush(inode).await;
        if inode.state().has_set_times() {
            self.report_attrs(inode).await?;
        }
        self.objects.stat_unknown(inode).await?;
        let pending = inode.state().attr_report(true);
        let before = inode.state().concurrent_lease_number();
        {
            // Before the request: its reply may be lost, and the server has executed it all the same.
            let mut state = inode.state();
            state.note_contention(self.clock.boot());
            state.lease_downgraded();
        }
        self.check_later(inode, before);
        let op = MetaOp::DowngradeWrite {
            ino: inode.ino,
            report: pending.report.clone(),
        };
        let reply = self.mds.call(&Caller::root(), op).await?;
        let attr = reply::changed("downgrade_write", reply)?;
        let mut state = inode.state();
        state.report_accepted(&pending);
        if let Some(attr) = attr {
            state.note_attr(attr);
        }
        Ok(())
    }

    /// Releases the lease if it is a concurrent one: before a request for which the server must have the leases of other clients
    /// released. While this client had one, another client's request could wait for it. The caller has locked the whole file and
    /// `reporting`.
    pub async fn release_concurrent_lease(&self, inode: &ActiveInode) -> Result<(), FsError> {
        let is_concurrent = inode.state().has_concurrent_write_lease();
        match is_concurrent {
            true => self.release_write_lease(inode).await,
            false => Ok(()),
        }
    }

    /// Locks `reporting`, and has no concurrent lease until it is unlocked.
    pub async fn lock_without_concurrent_lease<'a>(
        &self,
        inode: &'a ActiveInode,
    ) -> Result<ReportingLock<'a>, FsError> {
        let mut all = None;
        loop {
            let reporting = inode.reporting.lock().await;
            let is_concurrent = inode.state().has_concurrent_write_lease();
            if is_concurrent && all.is_none() {
                drop(reporting);
                all = Some(inode.range_locks.whole().await);
                continue;
            }
            self.release_concurrent_lease(inode).await?;
            return Ok(ReportingLock {
                _reporting: reporting,
                _all: all,
            });
        }
    }

    /// Starts a task for a new concurrent lease; `before` is the former one.
    fn check_later(&self, inode: &ActiveInode, before: Option<LeaseNumber>) {
        let Some(number) = inode.state().concurrent_lease_number() else {
            return;
        };
        if before == Some(number) {
            return;
        }
        let (ino, this, clock) = (inode.ino, self.this.clone(), self.clock.clone());
        let task = "check a concurrent write lease";
        self.tasks.spawn(task, async move {
            let [mut pause, longest] = CONCURRENT_LEASE_CHECKS;
            let mut written = None;
            loop {
                clock.sleep(pause).await;
                let Some(leases) = this.upgrade() else { return };
                let checked = leases.check_concurrent_lease(ino, number, written).await;
                match checked {
                    ControlFlow::Break(()) => return,
                    ControlFlow::Continue(writes) => written = Some(writes),
                }
                pause = (pause * 2).min(longest);
            }
        });
    }

    /// Makes the lease exclusive if no other client has one any more; releases it if this client has not used it since the last check,
    /// when it had made `written` changes. Continues with the number of changes while this is the lease.
    async fn check_concurrent_lease(
        &self,
        ino: InodeId,
        number: LeaseNumber,
        written: Option<u64>,
    ) -> ControlFlow<(), u64> {
        let Some(inode) = self.inodes.find(ino) else {
            return ControlFlow::Break(());
        };
        let is_current = || inode.state().concurrent_lease_number() == Some(number);
        if !is_current() {
            return ControlFlow::Break(());
        }
        let _all = inode.range_locks.whole().await;
        let _reporting = inode.reporting.lock().await;
        if !is_current() {
            return ControlFlow::Break(());
        }
        let changes = inode.state().data_changes();
        let done = match written == Some(changes) {
            true => self.release_write_lease(&inode).await,
            false => self.upgrade_write_lease(&inode).await,
        };
        match done {
            Ok(()) => ControlFlow::Break(()),
            Err(FsError::Busy) => ControlFlow::Continue(changes),
            Err(error) => {
                tracing::debug!(%ino, %error, "a concurrent write lease stays as it is");
                ControlFlow::Continue(changes)
            }
        }
    }

    /// # Errors
    /// `Busy` while another client has a write lease, too.
    async fn upgrade_write_lease(&self, inode: &ActiveInode) -> Result<(), FsError> {
        // From then on, what is behind the end is leftovers.
        self.truncate_leftovers(inode).await?;
        self.report_attrs(inode).await?;
        let op = MetaOp::UpgradeWrite { ino: inode.ino };
        let opened = reply::opened("upgrade_write", self.mds.call(&Caller::root(), op).await?)?;
        inode.state().lease_acquired(opened);
        Ok(())
    }
}
