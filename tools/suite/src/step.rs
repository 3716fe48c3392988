//! A step that workers take together: all get ready, all start at once, and each is timed.
//!
//! Workers are dealt to the processes in turn: worker 0 to process 0, worker 1 to process 1, and so on; those of one process
//! are its threads.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{SuiteError, SuiteResult};
use crate::latency::{Histogram, Latencies, PackedHistogram, merge};
use crate::procs::Procs;
use crate::size::MB;
use crate::stop_flag::StopFlag;
use crate::threads;

/// The work of one worker in a step.
#[derive(Default)]
pub struct Work {
    pub bytes: u64,
    pub latencies: Histogram,
    /// How long it had to wait for other workers.
    pub waited: Duration,
}

/// The same with the time that it took, for the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerResult {
    pub bytes: u64,
    pub operations: u64,
    pub seconds: f64,
    /// Seconds of these in which it had to wait for other workers.
    pub waited: f64,
}

/// A step of all workers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// Seconds from the barrier that let all go to the one that all reached.
    pub elapsed: f64,
    /// By worker.
    pub parts: Vec<WorkerResult>,
    pub latencies: Latencies,
}

impl WorkerResult {
    /// MB/s.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / MB / self.seconds
    }

    /// Operations a second.
    pub fn operations_rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }
}

impl Step {
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    pub fn operations(&self) -> u64 {
        self.parts.iter().map(|part| part.operations).sum()
    }

    /// The longest time that a worker needed.
    pub fn seconds(&self) -> f64 {
        let times = self.parts.iter().map(|part| part.seconds);
        times.fold(0.0, f64::max)
    }

    /// MB/s: "the total number of bytes divided by the longest elapsed time" (B.1.3).
    pub fn rate(&self) -> f64 {
        self.bytes() as f64 / MB / self.seconds()
    }

    /// MB/s over the time between the barriers.
    pub fn elapsed_rate(&self) -> f64 {
        self.bytes() as f64 / MB / self.elapsed
    }

    /// Operations a second, over the same time.
    pub fn operations_rate(&self) -> f64 {
        self.operations() as f64 / self.seconds()
    }

    pub fn rates(&self) -> impl Iterator<Item = f64> {
        self.parts.iter().map(WorkerResult::rate)
    }
}

/// The workers of this process, of so many in all.
pub fn workers_here(procs: &Procs, workers: usize) -> impl Iterator<Item = usize> + use<> {
    (procs.rank()..workers).step_by(procs.size())
}

/// A step of so many workers: its result, in process 0. `ready` is not timed, and no worker starts
/// before all are ready. A worker that learns of another's failure, by [`StopFlag::check`] or [`crate::latency::Laps::lap`], ends at once.
pub fn run<T>(
    procs: &mut Procs,
    workers: usize,
    ready: impl Fn(usize) -> SuiteResult<T> + Sync,
    work: impl Fn(usize, T, &StopFlag) -> SuiteResult<Work> + Sync,
) -> SuiteResult<Option<Step>> {
    let named = |worker, error: SuiteError| match workers {
        1 => error,
        _ => error.at(format_args!("worker {worker}")),
    };
    let mine: Vec<usize> = workers_here(procs, workers).collect();
    let mine = threads::run_step(
        procs,
        &mine,
        |worker| ready(worker).map_err(|error| named(worker, error)),
        |worker, tools, halt| work(worker, tools, halt).map_err(|error| named(worker, error)),
    )?;
    let done: Vec<WorkerMessage> = mine.done.into_iter().map(message).collect();
    let all = procs.gather(&done)?;
    Ok(all.map(|all| {
        let mut all: Vec<WorkerMessage> = all.into_iter().flatten().collect();
        all.sort_by_key(|message| message.worker);
        Step {
            elapsed: mine.elapsed,
            latencies: merge(all.iter().map(|message| &message.latencies)).summary(),
            parts: all.into_iter().map(|message| message.part).collect(),
        }
    }))
}

/// The message to process 0 about a worker.
#[derive(Clone, Serialize, Deserialize)]
struct WorkerMessage {
    worker: usize,
    part: WorkerResult,
    latencies: PackedHistogram,
}

fn message((worker, work, seconds): (usize, Work, f64)) -> WorkerMessage {
    WorkerMessage {
        worker,
        part: WorkerResult {
            bytes: work.bytes,
            operations: work.latencies.operations(),
            seconds,
            waited: work.waited.as_secs_f64(),
        },
        latencies: work.latencies.pack(),
    }
}

#[test]
fn a_rate_is_over_the_time_of_the_slowest() {
    let part = |seconds| WorkerResult {
        bytes: 10 << 20,
        operations: 5,
        seconds,
        waited: 0.0,
    };
    let step = Step {
        elapsed: 9.0,
        parts: vec![part(2.0), part(4.0)],
        latencies: Latencies::default(),
    };
    assert_eq!((step.rate(), step.operations_rate()), (5.0, 2.5));
    assert_eq!(step.rates().collect::<Vec<_>>(), [5.0, 2.5]);
    let operations = step.parts.iter().map(WorkerResult::operations_rate);
    assert_eq!(operations.collect::<Vec<_>>(), [2.5, 1.25]);
}
