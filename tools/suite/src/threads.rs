//! The workers of one process in step with those of all others: they get ready, start at once, and stop soon after one of any
//! process has failed.

use std::convert::Infallible;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::cpu;
use crate::error::{SuiteError, SuiteResult, first_cause};
use crate::procs::Procs;
use crate::stop_flag::StopFlag;

/// How often a process looks whether another has failed. Rarely enough not to be felt beside the work.
const LISTEN: Duration = Duration::from_millis(100);

/// The results of this process's workers.
pub struct StepDone<D> {
    /// By worker, with the seconds that each needed.
    pub done: Vec<(usize, D, f64)>,
    /// Seconds that all of them needed.
    pub seconds: f64,
    /// Seconds of these in which the kernel worked for them.
    pub system: f64,
    /// Seconds from the barrier that let the workers of all processes go to the one that all reached.
    pub elapsed: f64,
}

/// Work of so many threads, in step. `ready` is not timed, and no worker starts before all are ready. If a worker of
/// any process fails, all stop.
///
/// # Errors
///
/// A worker of any process failed, or a process is gone.
pub fn run_step<T, D: Send>(
    procs: &mut Procs,
    workers: &[usize],
    ready: impl Fn(usize) -> SuiteResult<T> + Sync,
    work: impl Fn(usize, T, &StopFlag) -> SuiteResult<D> + Sync,
) -> SuiteResult<StepDone<D>> {
    let (gate, halt) = (StartBarrier::new(workers.len()), StopFlag::default());
    let (working, ended) = channel();
    let mine = std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .iter()
            .map(|worker| {
                let (gate, halt, ready, work) = (&gate, &halt, &ready, &work);
                let working = working.clone();
                scope.spawn(move || {
                    let at_work = ThreadGuard::new(halt, working);
                    let tools = gate.wait(ready(*worker))?;
                    let begun = Instant::now();
                    let done = at_work.end(work(*worker, tools, halt))?;
                    Ok((*worker, done, begun.elapsed().as_secs_f64()))
                })
            })
            .collect();
        drop(working);
        let gone = procs
            .agree(gate.all_ready())
            .and_then(|()| procs.start_together());
        let system = cpu::system_seconds();
        let begun = Instant::now();
        gate.start(gone.is_ok());
        let heard = relay_failures(procs, &halt, &ended);
        let done: Vec<SuiteResult<(usize, D, f64)>> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(panicked())))
            .collect();
        let seconds = begun.elapsed().as_secs_f64();
        let system = cpu::system_seconds() - system;
        let gone = gone?;
        heard?;
        procs.barrier()?;
        let elapsed = gone.elapsed().as_secs_f64();
        Ok(first_cause(done).map(|done| StepDone {
            done,
            seconds,
            system,
            elapsed,
        }))
    });
    procs.agree(mine?)
}

/// Untimed work that each process does by itself: preparing, checking. If one fails, all stop.
///
/// # Errors
///
/// The work of any process failed, or a process is gone.
pub fn run_untimed<D: Send>(
    procs: &mut Procs,
    does: impl FnOnce(&StopFlag) -> SuiteResult<D> + Send,
) -> SuiteResult<D> {
    let halt = StopFlag::default();
    let (working, ended) = channel();
    let (done, heard) = std::thread::scope(|scope| {
        let halt = &halt;
        let thread = scope.spawn(move || ThreadGuard::new(halt, working).end(does(halt)));
        let heard = relay_failures(procs, halt, &ended);
        let done = thread.join().unwrap_or_else(|_| Err(panicked()));
        (done, heard)
    });
    heard?;
    procs.agree(done)
}

fn panicked() -> SuiteError {
    SuiteError::failed("a thread panicked")
}

/// A worker's thread, until it is dropped.
struct ThreadGuard<'a> {
    halt: &'a StopFlag,
    succeeded: bool,
    /// Dropped with the thread: the receiver learns that it has ended.
    _working: Sender<Infallible>,
}

impl ThreadGuard<'_> {
    fn new(halt: &StopFlag, working: Sender<Infallible>) -> ThreadGuard<'_> {
        ThreadGuard {
            halt,
            succeeded: false,
            _working: working,
        }
    }

    fn end<D>(mut self, done: SuiteResult<D>) -> SuiteResult<D> {
        self.succeeded = done.is_ok();
        done
    }
}

impl Drop for ThreadGuard<'_> {
    /// Also where a panic ends the thread.
    fn drop(&mut self) {
        if !self.succeeded {
            self.halt.raise();
        }
    }
}

/// Until all threads of this process have ended: tells other processes of a failure here, and the threads of one there.
fn relay_failures(
    procs: &mut Procs,
    halt: &StopFlag,
    ended: &Receiver<Infallible>,
) -> SuiteResult<()> {
    let (mut told, mut heard) = (false, Ok(()));
    loop {
        let Err(over) = ended.recv_timeout(LISTEN);
        if halt.is_raised() && !told {
            told = true;
            heard = heard.and(procs.alarm());
        }
        if over == RecvTimeoutError::Disconnected {
            return heard;
        }
        if !halt.is_raised() {
            match procs.alarmed() {
                Ok(false) => {}
                // It does not tell the others what they told it.
                Ok(true) => told = true,
                Err(lost) => heard = Err(lost),
            }
            if told || heard.is_err() {
                halt.raise();
            }
        }
    }
}

/// Where the threads of a process wait for all processes.
struct StartBarrier {
    ready: Barrier,
    start: Barrier,
    error: Mutex<Option<SuiteError>>,
    called_off: AtomicBool,
}

impl StartBarrier {
    fn new(threads: usize) -> StartBarrier {
        StartBarrier {
            ready: Barrier::new(threads + 1),
            start: Barrier::new(threads + 1),
            error: Mutex::new(None),
            called_off: AtomicBool::new(false),
        }
    }

    /// A thread's: says whether it is ready, and comes back when the work starts.
    fn wait<T>(&self, tools: SuiteResult<T>) -> SuiteResult<T> {
        if let Err(error) = &tools {
            *self.error.lock() = Some(error.clone());
        }
        self.ready.wait();
        self.start.wait();
        match self.called_off.load(Ordering::Relaxed) {
            true => Err(SuiteError::another_failed()),
            false => tools,
        }
    }

    /// Waits for the threads of this process. The error of one that is not ready.
    fn all_ready(&self) -> SuiteResult<()> {
        self.ready.wait();
        self.error.lock().take().map_or(Ok(()), Err)
    }

    fn start(&self, really: bool) {
        self.called_off.store(!really, Ordering::Relaxed);
        self.start.wait();
    }
}

#[test]
fn nobody_starts_if_one_is_not_ready() {
    let gate = StartBarrier::new(2);
    let (good, bad) = std::thread::scope(|scope| {
        let good = scope.spawn(|| gate.wait(Ok(1)));
        let bad = scope.spawn(|| gate.wait::<i32>(Err(SuiteError::failed("no memory"))));
        let ready = gate.all_ready();
        assert_eq!(ready, Err(SuiteError::failed("no memory")));
        gate.start(false);
        (good.join().unwrap(), bad.join().unwrap())
    });
    assert!(good.is_err() && bad.is_err());
}
