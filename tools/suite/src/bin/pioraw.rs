//! `pioraw`: Appendix A.3.4 of the GUPFS report.

use std::process::ExitCode;

fn main() -> ExitCode {
    gupfs_suite::workload::main::<gupfs_suite::pioraw::Pioraw>()
}
