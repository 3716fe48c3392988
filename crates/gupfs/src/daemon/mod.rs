//! # daemon: processes with a single role
//!
//! Owns   the order in which a metadata server, an object server, or a mount of servers elsewhere is started and stopped.
//! Never  takes part in an operation.
//! Enter  at `mds::run`, `oss::run`, `mount::run`.

pub mod mds;
pub mod mount;
pub mod oss;

use crate::amount::BusyPoll;
use crate::config::{Config, Threads};
use crate::exit::{CliResult, OrCliError};
use crate::metrics;
use crate::node::Parts;
use crate::store_dir::close_to_others;
use gupfs_platform::{Platform, Task};
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// What one worker does not manage any more others on as many CPUs should not have to wait for.
const CPUS_A_WORKER: usize = 4;
const WORKERS_MOST: usize = 8;

/// Runs a process to its end, on a thread for each CPU.
pub fn block_on<T>(run: impl Future<Output = CliResult<T>>) -> CliResult<T> {
    block_on_workers(None, None, run)
}

/// Runs a server or a mount to its end: what waits for messages between others, and not for a CPU.
pub fn serve<T>(threads: &Threads, run: impl Future<Output = CliResult<T>>) -> CliResult<T> {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let (workers, busy_poll) = plan(threads, cpus);
    block_on_workers(Some(workers), busy_poll, run)
}

/// So many workers, and how long they look for the next message.
fn plan(threads: &Threads, cpus: usize) -> (usize, Option<Duration>) {
    let of_cpus = (cpus / CPUS_A_WORKER).clamp(1, WORKERS_MOST);
    let workers = threads.workers.map_or(of_cpus, usize::from);
    // Among several workers the one that waits in the kernel hears first: to poll beside it is in vain.
    let of_workers = match workers {
        1 => BusyPoll::DEFAULT.time(),
        _ => None,
    };
    let busy_poll = threads.busy_poll.map_or(of_workers, BusyPoll::time);
    (workers, busy_poll)
}

fn block_on_workers<T>(
    workers: Option<usize>,
    busy_poll: Option<Duration>,
    run: impl Future<Output = CliResult<T>>,
) -> CliResult<T> {
    close_to_others();
    let everywhere = sched_getaffinity(None);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(workers) = workers {
        builder.worker_threads(workers);
    }
    let runtime = builder
        .enable_all()
        // A thread begins on the CPUs of the one that started it, and that may be pinned: a ring's.
        .on_thread_start(move || {
            if let Ok(cpus) = &everywhere {
                let _ = sched_setaffinity(None, cpus);
            }
        })
        .build()
        .or_cli_error(|| "cannot start the runtime".into())?;
    if let Some(window) = busy_poll {
        runtime.spawn(gupfs_platform::busy_poll::run(window));
    }
    runtime.spawn(async {
        let why = gupfs_uring::serve().await;
        tracing::debug!(%why, "files are read by the pool of threads");
    });
    let outcome = runtime.block_on(run);
    // What still waits in the kernel (a sync on a dead disk) must not keep us from ending.
    runtime.shutdown_timeout(Duration::from_secs(5));
    outcome
}

async fn start_metrics(
    config: &Config,
    platform: &Platform,
    parts: &Arc<Parts>,
) -> CliResult<Option<Task<()>>> {
    Ok(match config.metrics.listen {
        Some(listen) => Some(metrics::start(listen, platform, parts.clone()).await?),
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_for_each_four_cpus_and_one_alone_polls() {
        let polls = BusyPoll::DEFAULT.time();
        let of = |workers, busy_poll| Threads { workers, busy_poll };
        let by_itself = of(None, None);
        assert_eq!(plan(&by_itself, 1), (1, polls));
        assert_eq!(plan(&by_itself, 7), (1, polls));
        assert_eq!(plan(&by_itself, 8), (2, None));
        assert_eq!(plan(&by_itself, 128), (8, None));
        assert_eq!(plan(&of(Some(1), None), 128), (1, polls));
        assert_eq!(plan(&of(None, "none".parse().ok()), 2), (1, None));
        assert_eq!(plan(&of(Some(3), Some(BusyPoll::DEFAULT)), 2), (3, polls));
    }
}
