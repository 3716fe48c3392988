//! # daemon: processes with a single role
//!
//! Owns   the order in which a metadata server, an object server, or a mount of servers elsewhere is started and stopped.
//! Never  takes part in an operation.
//! Enter  at `mds::run`, `oss::run`, `mount::run`.

pub mod mds;
pub mod mount;
pub mod oss;

use crate::config::Config;
use crate::exit::{OrTrouble, Outcome};
use crate::metrics;
use crate::node::Parts;
use gupfs_world::{Task, World};
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Runs a process to its end.
pub fn block_on<T>(run: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let everywhere = sched_getaffinity(None);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // A thread begins on the CPUs of the one that started it, and that may be pinned: a ring's.
        .on_thread_start(move || {
            if let Ok(cpus) = &everywhere {
                let _ = sched_setaffinity(None, cpus);
            }
        })
        .build()
        .or_trouble(|| "cannot start the runtime".into())?;
    let outcome = runtime.block_on(run);
    // What still waits in the kernel (a sync on a dead disk) must not keep us from ending.
    runtime.shutdown_timeout(Duration::from_secs(5));
    outcome
}

async fn start_metrics(
    config: &Config,
    world: &World,
    parts: &Arc<Parts>,
) -> Outcome<Option<Task<()>>> {
    Ok(match config.metrics.listen {
        Some(listen) => Some(metrics::start(listen, &world.tasks, parts.clone()).await?),
        None => None,
    })
}
