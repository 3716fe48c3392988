//! A step that workers take together: all get ready, all start at once, and each is timed.
//!
//! Workers are dealt to the processes in turn: worker 0 to process 0, worker 1 to process 1, and so on; those of one process
//! are its threads.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::amount::MB;
use crate::halt::Halt;
use crate::latency::{Histogram, Latencies, Packed, together};
use crate::procs::Procs;
use crate::team;
use crate::trouble::{Outcome, Trouble};

/// What a worker says of its work.
#[derive(Default)]
pub struct Work {
    pub bytes: u64,
    pub latencies: Histogram,
    /// How long it had to wait for other workers.
    pub waited: Duration,
}

/// The same with the time that it took, for the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
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
    pub parts: Vec<Part>,
    pub latencies: Latencies,
}

impl Part {
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
        self.parts.iter().map(Part::rate)
    }
}

/// The workers of this process, of so many in all.
pub fn dealt(procs: &Procs, workers: usize) -> impl Iterator<Item = usize> + use<> {
    (procs.rank()..workers).step_by(procs.size())
}

/// A step of so many workers: its result, in process 0. What a worker needs to be ready is not timed, and nobody starts
/// before all are. A worker that hears of another's trouble, by [`Halt::check`] or [`crate::latency::Laps::lap`], ends at once.
pub fn take<T>(
    procs: &mut Procs,
    workers: usize,
    ready: impl Fn(usize) -> Outcome<T> + Sync,
    work: impl Fn(usize, T, &Halt) -> Outcome<Work> + Sync,
) -> Outcome<Option<Step>> {
    let named = |worker, trouble: Trouble| match workers {
        1 => trouble,
        _ => trouble.at(format_args!("worker {worker}")),
    };
    let mine: Vec<usize> = dealt(procs, workers).collect();
    let mine = team::take(
        procs,
        &mine,
        |worker| ready(worker).map_err(|trouble| named(worker, trouble)),
        |worker, tools, halt| work(worker, tools, halt).map_err(|trouble| named(worker, trouble)),
    )?;
    let done: Vec<Said> = mine.done.into_iter().map(said).collect();
    let all = procs.gather(&done)?;
    Ok(all.map(|all| {
        let mut all: Vec<Said> = all.into_iter().flatten().collect();
        all.sort_by_key(|said| said.worker);
        Step {
            elapsed: mine.elapsed,
            latencies: together(all.iter().map(|said| &said.latencies)).summary(),
            parts: all.into_iter().map(|said| said.part).collect(),
        }
    }))
}

/// What process 0 is told of a worker.
#[derive(Clone, Serialize, Deserialize)]
struct Said {
    worker: usize,
    part: Part,
    latencies: Packed,
}

fn said((worker, work, seconds): (usize, Work, f64)) -> Said {
    Said {
        worker,
        part: Part {
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
    let part = |seconds| Part {
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
    let operations = step.parts.iter().map(Part::operations_rate);
    assert_eq!(operations.collect::<Vec<_>>(), [2.5, 1.25]);
}
