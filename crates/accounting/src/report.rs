//! Reports of an object server to the metadata server: each is sent until it is accepted.

use crate::table::JobTable;
use gupfs_proto::jobs::JobReport;

/// Makes the reports of one process, one after the other.
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
