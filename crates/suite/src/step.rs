//! A step that workers take together: all get ready, all start at once, and each is timed.
//!
//! Workers are dealt to the processes in turn: worker 0 to process 0, worker 1 to process 1, and so on; those of one process
//! are its threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::amount::MB;
use crate::latency::{Histogram, Latencies, Packed, together};
use crate::procs::Procs;
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
/// before all are.
pub fn take<T>(
    procs: &mut Procs,
    workers: usize,
    ready: impl Fn(usize) -> Outcome<T> + Sync,
    work: impl Fn(usize, T) -> Outcome<Work> + Sync,
) -> Outcome<Option<Step>> {
    let mine: Vec<usize> = dealt(procs, workers).collect();
    let meeting = Meeting::new(mine.len());
    let (done, elapsed) = std::thread::scope(|scope| {
        let threads: Vec<_> = mine
            .iter()
            .map(|worker| {
                let (meeting, ready, work) = (&meeting, &ready, &work);
                scope.spawn(move || {
                    let tools = meeting.wait(ready(*worker))?;
                    let begun = Instant::now();
                    let done = work(*worker, tools)?;
                    Ok((*worker, done, begun.elapsed().as_secs_f64()))
                })
            })
            .collect();
        let gone = procs.agree(meeting.all_ready()).and_then(|()| procs.go());
        meeting.start(gone.is_ok());
        let done: Outcome<Vec<Said>> = threads
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(done) => done.map(said),
                Err(_) => Err(Trouble::met("a thread panicked")),
            })
            .collect();
        let elapsed = gone.and_then(|gone| {
            procs.barrier()?;
            Ok(gone.elapsed().as_secs_f64())
        });
        (done, elapsed)
    });
    let elapsed = elapsed?;
    let done = procs.agree(done)?;
    let all = procs.gather(&done)?;
    Ok(all.map(|all| {
        let mut all: Vec<Said> = all.into_iter().flatten().collect();
        all.sort_by_key(|said| said.worker);
        Step {
            elapsed,
            latencies: together(all.iter().map(|said| &said.latencies)).summary(),
            parts: all.into_iter().map(|said| said.part).collect(),
        }
    }))
}

/// Where the threads of a process wait for all processes.
struct Meeting {
    ready: Barrier,
    start: Barrier,
    trouble: Mutex<Option<Trouble>>,
    called_off: AtomicBool,
}

impl Meeting {
    fn new(threads: usize) -> Meeting {
        Meeting {
            ready: Barrier::new(threads + 1),
            start: Barrier::new(threads + 1),
            trouble: Mutex::new(None),
            called_off: AtomicBool::new(false),
        }
    }

    /// A thread's: says whether it is ready, and comes back when the work starts.
    fn wait<T>(&self, tools: Outcome<T>) -> Outcome<T> {
        if let Err(trouble) = &tools {
            *self.lock() = Some(trouble.clone());
        }
        self.ready.wait();
        self.start.wait();
        match self.called_off.load(Ordering::Relaxed) {
            true => Err(Trouble::met("another worker was not ready")),
            false => tools,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Trouble>> {
        self.trouble
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for the threads of this process: the trouble of one that is not ready.
    fn all_ready(&self) -> Outcome<()> {
        self.ready.wait();
        self.lock().take().map_or(Ok(()), Err)
    }

    fn start(&self, really: bool) {
        self.called_off.store(!really, Ordering::Relaxed);
        self.start.wait();
    }
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
fn nobody_starts_if_one_is_not_ready() {
    let meeting = Meeting::new(2);
    let (good, bad) = std::thread::scope(|scope| {
        let good = scope.spawn(|| meeting.wait(Ok(1)));
        let bad = scope.spawn(|| meeting.wait::<i32>(Err(Trouble::met("no memory"))));
        let ready = meeting.all_ready();
        assert_eq!(ready, Err(Trouble::met("no memory")));
        meeting.start(false);
        (good.join().unwrap(), bad.join().unwrap())
    });
    assert!(good.is_err() && bad.is_err());
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
}
