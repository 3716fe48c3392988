//! `metabench`: Appendix A.2 of the GUPFS report.

use std::process::ExitCode;

fn main() -> ExitCode {
    gupfs_suite::workload::main::<gupfs_suite::metabench::Metabench>()
}
