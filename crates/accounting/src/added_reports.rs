//! Which reports were added, so that each counts once, however often it is sent.

use gupfs_proto::jobs::JobReport;
use std::collections::BTreeMap;

/// Reporters that the metadata server remembers: more than a cluster has object servers.
const REPORTERS_MAX: usize = 4096;

/// The newest report of each object server's process.
#[derive(Default)]
pub struct AddedReports {
    newest: BTreeMap<u64, u64>,
}

impl AddedReports {
    /// Whether the report is to be added. It counts as added from now on.
    pub fn is_new(&mut self, report: &JobReport) -> bool {
        if self.newest.get(&report.reporter) >= Some(&report.number) {
            return false;
        }
        if self.newest.len() >= REPORTERS_MAX && !self.newest.contains_key(&report.reporter) {
            // Former processes of object servers, most of them: a live one whose last report is forgotten counts it twice at worst.
            self.newest.pop_first();
        }
        self.newest.insert(report.reporter, report.number);
        true
    }
}
