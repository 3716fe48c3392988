//! Callbacks to lease holders: their results, for the operation that needed them.

use gupfs_proto::{InodeId, SessionId};
use std::collections::{BTreeMap, BTreeSet};

/// How often the holders of a file that keeps growing are asked: then the last reports count.
const REPORT_ROUNDS_MAX: u32 = 16;

/// The results of the callbacks that the driver made to lease holders for the current operation.
#[derive(Clone, Debug, Default)]
pub struct CallbackResults {
    reported: BTreeMap<InodeId, AttrReports>,
    unreachable: BTreeSet<(InodeId, SessionId)>,
}

/// What the holders of a file's write leases have reported for an operation.
#[derive(Clone, Copy, Debug)]
struct AttrReports {
    /// More than one holder was asked: their reports are of different moments.
    are_of_several: bool,
    /// How often they were asked.
    rounds: u32,
    /// The recorded size before the last time.
    size_before: u64,
}

impl CallbackResults {
    /// The file's lease holders, so many, have reported their attributes since the operation arrived, and since this size was recorded. The
    /// operation need not see later writes.
    pub fn add_report(&mut self, ino: InodeId, holders: usize, size_before: u64) {
        let rounds = self.reported.get(&ino).map_or(0, |former| former.rounds);
        let reports = AttrReports {
            are_of_several: holders > 1,
            rounds: rounds + 1,
            size_before,
        };
        self.reported.insert(ino, reports);
    }

    /// This lease holder is dead and the file's objects cannot be queried now: operations do not wait for its report.
    pub fn add_unreachable(&mut self, ino: InodeId, session: SessionId) {
        self.unreachable.insert((ino, session));
    }

    /// Whether the file's lease holders have reported their attributes, so that at one moment since the operation arrived the file had this
    /// size, which is recorded now.
    ///
    /// One may have reported before it wrote, and another one after a later write of its own: their largest size was never the file's. It was,
    /// before they were asked, if none has reported a larger one, because the file only grows while several write it.
    pub(crate) fn has_report(&self, ino: InodeId, size: u64) -> bool {
        self.reported.get(&ino).is_some_and(|reports| {
            !reports.are_of_several
                || reports.size_before == size
                || reports.rounds >= REPORT_ROUNDS_MAX
        })
    }

    /// Whether a lease holder of the file is unreachable.
    pub(crate) fn has_unreachable(&self, ino: InodeId) -> bool {
        self.unreachable.iter().any(|(of, _)| *of == ino)
    }

    /// Whether this lease holder of the file is unreachable.
    pub(crate) fn is_unreachable(&self, ino: InodeId, session: SessionId) -> bool {
        self.unreachable.contains(&(ino, session))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INO: InodeId = InodeId(7);

    #[test]
    fn reports_of_several_holders_count_when_none_has_a_larger_size() {
        let mut results = CallbackResults::default();
        assert!(!results.has_report(INO, 100));
        results.add_report(INO, 1, 100);
        assert!(results.has_report(INO, 100) && results.has_report(INO, 150));
        let mut results = CallbackResults::default();
        results.add_report(INO, 2, 100);
        assert!(results.has_report(INO, 100));
        assert!(!results.has_report(INO, 150), "of different moments");
        results.add_report(INO, 2, 150);
        assert!(results.has_report(INO, 150) && !results.has_report(INO, 151));
    }

    #[test]
    fn a_file_that_never_stops_growing_is_not_asked_about_for_ever() {
        let mut results = CallbackResults::default();
        for size in 0..u64::from(REPORT_ROUNDS_MAX) {
            assert!(!results.has_report(INO, size));
            results.add_report(INO, 3, size);
        }
        assert!(results.has_report(INO, 1_000));
    }
}
