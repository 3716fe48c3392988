//! Attribute reports of a file with a write lease to the metadata server.

use super::FileLeases;
use crate::inodes::ActiveInode;
use crate::reply;
use gupfs_proto::meta::{MetaOp, SetAttr, SetTime};
use gupfs_proto::{Caller, FsError};

impl FileLeases {
    /// Reports unreported changes and keeps the write lease. The caller has locked `reporting`.
    pub async fn report_attrs(&self, inode: &ActiveInode) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "report_attrs");
        if inode.state().owes_report() {
            self.end_write(inode, true).await?;
        }
        Ok(())
    }

    /// Reports times that a program has set here, if the server does not know them yet.
    pub async fn report_set_times(&self, inode: &ActiveInode) -> Result<(), FsError> {
        if !inode.state().has_set_times() {
            return Ok(());
        }
        let _reporting = inode.reporting.lock().await;
        self.report_attrs(inode).await
    }

    /// The object servers get what this client has not sent. After an error open files have it.
    pub async fn flush(&self, inode: &ActiveInode) {
        let _in_errors = self.objects.flush(inode).await;
    }

    /// Reports, and with `keep_lease` false releases the write lease: from then on the server's state is authoritative.
    pub(super) async fn end_write(
        &self,
        inode: &ActiveInode,
        keep_lease: bool,
    ) -> Result<(), FsError> {
        if !keep_lease && self.end_write_with_bytes(inode).await? {
            return Ok(());
        }
        // The size that this reports is true of the objects.
        let _written_through = self.objects.write_through(inode).await;
        // The blocks of an object that others write are those of its last stat: asked for once, at the end.
        let is_concurrent = inode.state().has_concurrent_write_lease();
        if is_concurrent && !keep_lease {
            inode.state().objects.note_other_writers();
        }
        if !(is_concurrent && keep_lease) {
            self.objects.stat_unknown(inode).await?;
        }
        let pending = inode.state().attr_report(keep_lease);
        let (ino, report) = (inode.ino, pending.report.clone());
        let op = match pending.ctime() {
            None => MetaOp::EndWrite {
                ino,
                report,
                keep_lease,
            },
            ctime => MetaOp::ReportWrites {
                ino,
                report,
                keep_lease,
                ctime,
                inline: None,
            },
        };
        let _ending = (!keep_lease).then(|| inode.start_lease_end(false));
        let attr = reply::changed("end_write", self.mds.call(&Caller::root(), op).await?)?;
        let mut state = inode.state();
        state.report_accepted(&pending);
        if !keep_lease {
            // Before other tasks see the release: replies in transit may be older than this report.
            self.inodes.invalidate_replies(inode.ino);
            state.lease_released(attr);
        }
        if let Some(attr) = attr {
            state.note_own_update(attr);
        }
        Ok(())
    }

    /// Reports the access time of a file without a write lease at its close: reading alone acquires no lease.
    pub async fn report_atime(&self, inode: &ActiveInode) -> Result<(), FsError> {
        let _reporting = inode.reporting.lock().await;
        let (atime, ctime) = {
            let state = inode.state();
            (state.atime(), state.server_attr().map(|base| base.ctime))
        };
        let Some(atime) = atime else { return Ok(()) };
        let set = SetAttr {
            atime: Some(SetTime::To(atime)),
            // Reading does not change the inode: its ctime stays.
            ctime,
            ..SetAttr::default()
        };
        let op = MetaOp::SetAttr {
            ino: inode.ino,
            set,
        };
        let attr = reply::changed("setattr", self.mds.call(&Caller::root(), op).await?)?;
        let mut state = inode.state();
        state.set_atime(None);
        if let Some(attr) = attr {
            state.note_attr(attr);
        }
        Ok(())
    }
}
