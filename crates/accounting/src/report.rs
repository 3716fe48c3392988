//! Reports of an object server to the metadata server: each is accepted once, however often it is sent.

use crate::table::JobTable;
use gupfs_proto::jobs::JobReport;
use std::collections::BTreeMap;

/// The sender's side.
pub struct JobReporter {
    reporter: u64,
    number: u64,
    /// The report that has no reply yet.
    pending: Option<JobReport>,
}

impl JobReporter {
    /// `reporter`: a random number.
    pub fn new(reporter: u64) -> JobReporter {
        JobReporter {
            reporter,
            number: 0,
            pending: None,
        }
    }

    /// The report to send now: the former one, until it is accepted. None: there is nothing to report.
    pub fn next(&mut self, table: &JobTable) -> Option<JobReport> {
        if self.pending.is_none()
            && let Some(new) = table.take_unreported()
        {
            self.number += 1;
            self.pending = Some(JobReport {
                reporter: self.reporter,
                number: self.number,
                rows: new.rows,
                others: new.others,
                targets: new.targets,
            });
        }
        self.pending.clone()
    }

    /// The metadata server has accepted the report that `next` returned.
    pub fn accepted(&mut self) {
        self.pending = None;
    }
}

/// Reporters that the metadata server remembers: more than a cluster has object servers.
const REPORTERS_MAX: usize = 4096;

/// The receiver's side: which reports were added.
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
