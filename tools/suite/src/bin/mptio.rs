//! `mptio`: Appendix A.1 of the GUPFS report.

use std::process::ExitCode;

fn main() -> ExitCode {
    gupfs_suite::workload::main::<gupfs_suite::mptio::Mptio>()
}
