//! # process: a simulation of the real client and servers in one process, on simulated disks
//!
//! Owns   a host whose disks outlive its processes, a program that works until a fault ends the instance, and the comparison of
//!        the state after the next start with the replies that the program received.
//! Never  replaces a part of gupfs: only disk, index, clock, random source and tasks are simulated.
//! Enter  at `run` (all instances of a seed), `scripts::crash_at_every_sync` (one workload that crashes at each of its syncs).

mod action;
mod check;
mod fault;
pub(crate) mod file_content;
mod host;
mod name_tree;
mod program;
mod records;
pub mod scripts;
mod simulation;

pub use simulation::run;

use std::time::Duration;

/// Runs on a clock that advances when all tasks wait. A simulated day is longer than any run.
pub(crate) fn on_paused_time<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing");
    let bounded = async { tokio::time::timeout(Duration::from_secs(86_400), run).await };
    runtime
        .block_on(bounded)
        .expect("the run ends within a simulated day")
}
