//! `mptsum`: what the report's Perl script of this name did for mptio.

use std::process::ExitCode;

fn main() -> ExitCode {
    gupfs_suite::mptio::summary::Mptsum::main()
}
