//! # whole: the real client and servers over faked disks
//!
//! Owns   a house whose disks outlive its processes, one user who works in it until a fault ends a life, and the
//!        comparison of what the next life finds with what the user was promised.
//! Never  replaces a part of gupfs: only disk, index, clock, dice and tasks are faked.
//! Enter  at `run` (a seed's lives), `script::every_sync` (one workload, dying at each of its syncs).

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

/// Runs on a clock that passes when everybody waits. A simulated day is long enough for everything.
pub(crate) fn on_paused_time<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing");
    let bounded = async { tokio::time::timeout(Duration::from_secs(86_400), run).await };
    runtime.block_on(bounded).expect("nothing waits for ever")
}
