//! `mptsum`: summaries of mptio's reports, as the report's Perl script of this name makes them.

use std::process::ExitCode;

fn main() -> ExitCode {
    gupfs_suite::mptio::summary::Mptsum::main()
}
