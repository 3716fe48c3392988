//! # whole: the real client and servers on one host, with simulated disks
//!
//! Owns   a test cluster whose disks outlive its processes, one user who works in it until a fault ends the instance, and the
//!        comparison of what the next instance finds with what the user was promised.
//! Never  replaces a part of gupfs: only disk, index, clock, random source and tasks are simulated.
//! Enter  at `run` (all instances of a seed), `script::every_sync` (one workload that dies at each of its syncs).

mod action;
pub(crate) mod content;
mod fault;
mod house;
mod records;
pub mod script;
mod story;
mod tree;
mod user;
mod verdict;

pub use story::run;

use std::time::Duration;

/// Runs on a clock that advances when all tasks wait. A simulated day is long enough for everything.
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
