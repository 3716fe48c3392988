//! `gupfs-suite`: the workloads that are no programs of their own, as subcommands.

use std::process::ExitCode;

fn main() -> ExitCode {
    gupfs_suite::tool::main::<gupfs_suite::loads::Suite>()
}
