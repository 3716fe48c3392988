//! Attribute reports to the metadata server.

use super::InodeState;
use super::objects::ReportedObjects;
use super::times::UnreportedTimes;
use gupfs_proto::Timestamp;
use gupfs_proto::meta::AttrReport;

/// An attribute report, to be marked as accepted when the server has answered it.
pub struct PendingReport {
    pub report: AttrReport,
    times: UnreportedTimes,
    /// Once it is accepted, nothing is unreported.
    is_complete: bool,
}

impl PendingReport {
    /// When this client last changed the inode, if the mtime does not tell.
    pub fn ctime(&self) -> Option<Timestamp> {
        self.times.ctime
    }
}

impl InodeState {
    pub fn has_unreported(&self) -> bool {
        self.times.has_unreported()
    }

    /// Whether a program has set times here, and the server does not know them.
    pub fn has_set_times(&self) -> bool {
        self.times.has_set_times()
    }

    /// Number of changes of the file's bytes by this client.
    pub fn data_changes(&self) -> u64 {
        self.times.changes()
    }

    /// Whether the server must be told before it answers about this inode: this client has the write lease, and has changed it.
    pub fn owes_report(&self) -> bool {
        self.has_write_lease() && self.has_unreported()
    }

    /// With `keep` a later report lists the objects that are unsynced now; without, the server asks the OSTs later.
    pub fn attr_report(&self, keep: bool) -> PendingReport {
        let ReportedObjects { present, unsynced } = self.objects.reported();
        let is_complete = !keep || unsynced.is_empty();
        let blocks = match self.layout().is_empty() {
            true => None,
            // The server takes the largest of those that the writers know.
            false if self.has_concurrent_write_lease() => Some(self.objects.known_blocks()),
            false => self.objects.blocks(),
        };
        let times = self.times.snapshot();
        PendingReport {
            report: AttrReport {
                size: self.end_of_file().0,
                mtime: times.mtime,
                atime: times.atime,
                blocks: blocks
                    .or(self.server_attr.map(|base| base.blocks))
                    .unwrap_or(0),
                present,
                unsynced,
            },
            times,
            is_complete,
        }
    }

    /// The server has accepted the report; later changes stay unreported.
    pub fn report_accepted(&mut self, pending: &PendingReport) {
        self.times.accepted(pending.times, pending.is_complete);
    }

    /// A snapshot of the unreported times.
    pub fn unreported_times(&self) -> UnreportedTimes {
        self.times.snapshot()
    }

    /// A setattr has set times at the server; `before` was taken before it was sent.
    pub fn times_set_at_server(&mut self, mtime: bool, atime: bool, before: UnreportedTimes) {
        self.times.set_at_server(mtime, atime, before);
    }
}
