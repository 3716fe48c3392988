//! `mdmark`: Appendix A.3.5 of the GUPFS report.

use std::process::ExitCode;

fn main() -> ExitCode {
    gupfs_suite::workload::main::<gupfs_suite::mdmark::Mdmark>()
}
