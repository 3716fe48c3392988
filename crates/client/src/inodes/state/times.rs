//! Changes of data and times that are not reported to the metadata server yet.

use gupfs_proto::{Attr, Timestamp};

#[derive(Default)]
pub struct UnreportedChanges {
    mtime: Option<Timestamp>,
    atime: Option<Timestamp>,
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
}

impl UnreportedChanges {
    /// The server's state was loaded: nothing but the access time is unreported.
    pub fn load(&mut self) {
        self.mtime = None;
        self.reported_changes = self.changes;
    }

    /// The file's bytes changed at `now`.
    pub fn data_changed(&mut self, now: Timestamp) {
        self.mtime = Some(now);
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
        self.set_at_server(true, true, reported);
    }

    /// The attributes with the unreported times.
    pub fn overlay(&self, attr: &mut Attr) {
        if let Some(mtime) = self.mtime {
            attr.mtime = mtime;
            attr.ctime = attr.ctime.max(mtime);
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
    fn an_incomplete_report_is_followed_by_another() {
        let mut changes = UnreportedChanges::default();
        changes.data_changed(at(1));
        changes.accepted(changes.snapshot(), false);
        assert_eq!(changes.snapshot().mtime, None);
        assert!(changes.has_unreported());
    }
}
