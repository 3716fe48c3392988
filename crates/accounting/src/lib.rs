//! # accounting: what servers do for whom
//!
//! Owns   the table in which a server counts calls, bytes and time of each job on each client; the reports by which object servers bring
//!        their counts to the metadata server; the names of jobs.
//! Never  decides anything by what it counts: a host can claim any job.
//! Enter  at `JobTable::count`; readers at `JobTable::job_use`.
//!
//! A table has at most `JOB_ROWS_MAX` rows. When it is full, the eighth that was used least lately goes into one row, `others`: sums stay
//! right, and a host that invents jobs hides at most its quiet neighbours.

mod added_reports;
mod labels;
mod report;
mod row;
mod table;

pub use report::JobReporter;
pub use table::{FinishedCall, JobTable};
