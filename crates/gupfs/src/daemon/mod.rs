//! # daemon: processes with a single role
//!
//! Owns   the order in which a metadata server, an object server, or a mount of remote servers is started and stopped; the runtime of a
//!        process.
//! Never  takes part in an operation.
//! Enter  at `mds::run`, `oss::run`, `mount::run`.

pub mod copies;
mod failed_copy;
pub mod mds;
pub mod mount;
pub mod oss;

use crate::amount::BusyPoll;
use crate::config::{Config, Threads};
use crate::events::feed_service_watchdog;
use crate::exit::{CliResult, OrCliError};
use crate::metrics;
use crate::node::Parts;
use crate::store_dir::close_to_others;
use gupfs_platform::{Platform, Task, allocator};
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A worker for each so many CPUs: with more load than one worker can handle, requests should not wait while CPUs are idle.
const CPUS_PER_WORKER: usize = 4;
const WORKERS_MAX: usize = 8;

/// Runs a process to its end, with a worker thread for each CPU.
///
/// # Errors
/// Those of `run`, or if the runtime cannot be started.
pub fn block_on<T>(run: impl Future<Output = CliResult<T>>) -> CliResult<T> {
    block_on_workers(None, None, run)
}

/// Runs a server or a mount to its end. It waits for messages most of the time and needs few workers. `busy_poll`: how long a single worker
/// polls, unless the configuration says it.
///
/// # Errors
/// Those of `run`, or if the runtime cannot be started.
pub fn serve<T>(
    threads: &Threads,
    busy_poll: BusyPoll,
    run: impl Future<Output = CliResult<T>>,
) -> CliResult<T> {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let (workers, busy_poll) = plan(threads, busy_poll, cpus);
    block_on_workers(Some(workers), busy_poll, run)
}

/// The number of workers, and how long they poll for the next message before they sleep.
fn plan(threads: &Threads, of_single: BusyPoll, cpus: usize) -> (usize, Option<Duration>) {
    let of_cpus = (cpus / CPUS_PER_WORKER).clamp(1, WORKERS_MAX);
    let workers = threads.workers.map_or(of_cpus, usize::from);
    // One of several workers waits in the kernel and gets the message first; polling on another would be useless.
    let of_workers = match workers {
        1 => of_single.time(),
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
    allocator::keep_freed_memory();
    let everywhere = sched_getaffinity(None);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(workers) = workers {
        builder.worker_threads(workers);
    }
    let runtime = builder
        .enable_all()
        // A thread inherits the CPU affinity of its creator, which may be the pinned thread of a ring.
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
    runtime.spawn(feed_service_watchdog(Platform::real().clock));
    runtime.spawn(async {
        let why = gupfs_uring::serve().await;
        tracing::debug!(%why, "reads of files use the thread pool");
    });
    let outcome = runtime.block_on(run);
    // A call that hangs in the kernel (a sync on a failed disk) must not prevent the process from ending.
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
    fn there_is_a_worker_for_each_four_cpus_and_a_single_worker_polls() {
        let (polls, of_mds) = (BusyPoll::DEFAULT.time(), BusyPoll::OF_METADATA_SERVER);
        assert_eq!(plan(&Threads::default(), of_mds, 2), (1, of_mds.time()));
        let plan = |threads: &Threads, cpus| plan(threads, BusyPoll::DEFAULT, cpus);
        let of = |workers, busy_poll| Threads { workers, busy_poll };
        let default = of(None, None);
        assert_eq!(plan(&default, 1), (1, polls));
        assert_eq!(plan(&default, 7), (1, polls));
        assert_eq!(plan(&default, 8), (2, None));
        assert_eq!(plan(&default, 128), (8, None));
        assert_eq!(plan(&of(Some(1), None), 128), (1, polls));
        assert_eq!(plan(&of(None, "none".parse().ok()), 2), (1, None));
        assert_eq!(plan(&of(Some(3), Some(BusyPoll::DEFAULT)), 2), (3, polls));
    }
}
