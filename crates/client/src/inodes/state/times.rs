//! Changes of data and times that are not reported to the metadata server yet.

use gupfs_proto::{Attr, Timestamp};

#[derive(Default)]
pub struct UnreportedChanges {
    mtime: Option<Timestamp>,
    atime: Option<Timestamp>,
    /// When this client last changed the inode, since a program has set times. None: with the last change of the bytes.
    ctime: Option<Timestamp>,
    /// Changes made, and how many of them are reported to the server.
    changes: u64,
    reported_changes: u64,
}

/// A snapshot of the unreported times, to detect later changes.
#[derive(Clone, Copy)]
pub struct UnreportedTimes {
    changes: u64,
    pub mtime: Option<Timestamp>,
    pub atime: Option<Timestamp>,
    pub ctime: Option<Timestamp>,
}

impl UnreportedChanges {
    /// The server's state was loaded: nothing but the access time is unreported.
    pub fn load(&mut self) {
        (self.mtime, self.ctime) = (None, None);
        self.reported_changes = self.changes;
    }

    /// A program has set these times, or only ctime, at `now`.
    pub fn set_by_program(
        &mut self,
        mtime: Option<Timestamp>,
        atime: Option<Timestamp>,
        now: Timestamp,
    ) {
        self.mtime = mtime.or(self.mtime);
        self.atime = atime.or(self.atime);
        self.ctime = Some(now);
        self.changes += 1;
    }

    /// Whether the server must be told a ctime of its own.
    pub fn has_set_times(&self) -> bool {
        self.ctime.is_some()
    }

    /// The file's bytes changed at `now`.
    pub fn data_changed(&mut self, now: Timestamp) {
        self.mtime = Some(now);
        self.ctime = self.ctime.map(|_| now);
        self.changes += 1;
    }

    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// No data was changed since the inode came into the table.
    pub fn is_unchanged(&self) -> bool {
        self.changes == 0
    }

    pub fn atime(&self) -> Option<Timestamp> {
        self.atime
    }

    pub fn set_atime(&mut self, atime: Option<Timestamp>) {
        self.atime = atime;
    }

    pub fn has_unreported(&self) -> bool {
        self.reported_changes != self.changes || self.atime.is_some()
    }

    pub fn snapshot(&self) -> UnreportedTimes {
        UnreportedTimes {
            changes: self.changes,
            mtime: self.mtime,
            atime: self.atime,
            ctime: self.ctime,
        }
    }

    /// A setattr has set times at the server after `before`: the times that were unreported then must not be reported any more,
    /// because they would overwrite the set ones.
    pub fn set_at_server(&mut self, mtime: bool, atime: bool, before: UnreportedTimes) {
        if mtime && self.changes == before.changes {
            self.mtime = None;
        }
        if atime && self.atime == before.atime {
            self.atime = None;
        }
    }

    /// The server has accepted a report of these times; later changes stay unreported. `is_complete`: the report leaves nothing
    /// for a later one.
    pub fn accepted(&mut self, reported: UnreportedTimes, is_complete: bool) {
        if is_complete {
            self.reported_changes = self.reported_changes.max(reported.changes);
        }
        if self.changes == reported.changes {
            self.ctime = None;
        }
        self.set_at_server(true, true, reported);
    }

    /// The attributes with the unreported times.
    pub fn overlay(&self, attr: &mut Attr) {
        if let Some(mtime) = self.mtime {
            attr.mtime = mtime;
        }
        // An mtime that a program has set is no time of a change.
        if let Some(changed_at) = self.ctime.or(self.mtime) {
            attr.ctime = attr.ctime.max(changed_at);
            attr.change += 1;
        }
        if let Some(atime) = self.atime {
            attr.atime = atime;
        }
    }

    /// The same where other clients write the file, too: the latest time counts.
    pub fn merge_into(&self, attr: &mut Attr) {
        let mtime = attr.mtime;
        self.overlay(attr);
        attr.mtime = attr.mtime.max(mtime);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inodes::state::fixtures::opened;
    use gupfs_proto::Presence;

    fn at(secs: i64) -> Timestamp {
        Timestamp {
            secs,
            ..Timestamp::default()
        }
    }

    #[test]
    fn a_change_during_a_report_stays_unreported() {
        let mut changes = UnreportedChanges::default();
        changes.data_changed(at(1));
        let report = changes.snapshot();
        changes.data_changed(at(2));
        changes.accepted(report, true);
        assert!(changes.has_unreported());
        assert_eq!(changes.snapshot().mtime, Some(at(2)));
        changes.accepted(changes.snapshot(), true);
        assert!(!changes.has_unreported());
        assert_eq!(changes.snapshot().mtime, None);
    }

    #[test]
    fn set_times_have_a_ctime_of_their_own_until_they_are_reported() {
        let mut changes = UnreportedChanges::default();
        changes.data_changed(at(50));
        changes.set_by_program(Some(at(900)), Some(at(2)), at(60));
        let mut attr = opened(1, Presence::Never).attr;
        attr.ctime = at(40);
        changes.overlay(&mut attr);
        let seen = [attr.mtime, attr.atime, attr.ctime];
        assert_eq!(seen, [at(900), at(2), at(60)]);
        changes.data_changed(at(70));
        let report = changes.snapshot();
        assert_eq!((report.mtime, report.ctime), (Some(at(70)), Some(at(70))));
        // A later setting of ctime alone.
        changes.set_by_program(None, None, at(80));
        changes.accepted(report, true);
        let report = changes.snapshot();
        assert_eq!(report.ctime, Some(at(80)));
        changes.accepted(report, true);
        assert!(!changes.has_set_times() && !changes.has_unreported());
    }

    #[test]
    fn an_incomplete_report_is_followed_by_another() {
        let mut changes = UnreportedChanges::default();
        changes.data_changed(at(1));
        changes.accepted(changes.snapshot(), false);
        assert_eq!(changes.snapshot().mtime, None);
        assert!(changes.has_unreported());
    }
}
