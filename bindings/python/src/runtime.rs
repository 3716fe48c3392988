//! The runtime of this process, made at the first use and again after a fork.
//!
//! A child of fork(2) has one thread: those of the parent's runtime are gone, and locks that they held stay locked. So the child leaks what
//! the parent has made, and makes its own. Before the fork the parent's workers stop at a place where they hold no lock.

use crate::process::ForkCount;
use gupfs_platform::busy_poll;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// A worker for each so many processors: it carries messages; the calling thread does the rest.
const CPUS_PER_WORKER: usize = 4;
const WORKERS_MAX: usize = 2;

/// How long a single worker polls for the next message before it sleeps, as a mount's does.
const BUSY_POLL: Duration = Duration::from_micros(100);

/// How long a fork waits for the workers to stop. A worker that does not stop holds no lock for ever; the child would rarely need it.
const STOP_WAIT: Duration = Duration::from_millis(500);
const STOP_CHECK: Duration = Duration::from_micros(50);

/// Null until the first use. Not a `OnceLock`: a fork in the middle of its initialisation would leave it locked in the child.
static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());

/// The workers that the fork under way has stopped; null if none is under way.
static STOPPED: AtomicPtr<StoppedWorkers> = AtomicPtr::new(std::ptr::null_mut());

struct StoppedWorkers {
    arrived: AtomicUsize,
    may_go_on: AtomicBool,
}

fn workers() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    (cpus / CPUS_PER_WORKER).clamp(1, WORKERS_MAX)
}

/// The runtime of this process.
///
/// # Errors
/// The system's, if it has no resources for threads.
pub fn runtime() -> std::io::Result<&'static Runtime> {
    let existing = RUNTIME.load(Ordering::Acquire);
    if !existing.is_null() {
        // SAFETY: a pointer in `RUNTIME` comes from `Box::leak` below and is never freed.
        return Ok(unsafe { &*existing });
    }
    let workers = workers();
    let made = Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name("gupfs")
        .enable_all()
        .build()?;
    let made = Box::into_raw(Box::new(made));
    let null = std::ptr::null_mut();
    match RUNTIME.compare_exchange(null, made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            // SAFETY: it was made above, and is never freed from now on.
            let made = unsafe { &*made };
            if workers == 1 {
                made.spawn(busy_poll::run(BUSY_POLL));
            }
            Ok(made)
        }
        Err(other) => {
            // SAFETY: `made` was not published; only this function has the pointer.
            let unused = unsafe { Box::from_raw(made) };
            unused.shutdown_background();
            // SAFETY: as above, of the thread that was first.
            Ok(unsafe { &*other })
        }
    }
}

/// Stops the workers where they hold no lock, until `after_fork_in_parent`.
#[pyfunction]
pub fn before_fork() {
    let existing = RUNTIME.load(Ordering::Acquire);
    if existing.is_null() {
        return;
    }
    // SAFETY: as in `runtime`.
    let existing = unsafe { &*existing };
    let stopped = Arc::new(StoppedWorkers {
        arrived: AtomicUsize::new(0),
        may_go_on: AtomicBool::new(false),
    });
    let workers = workers();
    for _ in 0..workers {
        let stopped = stopped.clone();
        existing.spawn(async move {
            stopped.arrived.fetch_add(1, Ordering::AcqRel);
            // No await: the worker stays here.
            while !stopped.may_go_on.load(Ordering::Acquire) {
                std::thread::sleep(STOP_CHECK);
            }
        });
    }
    let mut waited = Duration::ZERO;
    while stopped.arrived.load(Ordering::Acquire) < workers && waited < STOP_WAIT {
        std::thread::sleep(STOP_CHECK);
        waited += STOP_CHECK;
    }
    let former = STOPPED.swap(Arc::into_raw(stopped).cast_mut(), Ordering::AcqRel);
    release(former);
}

#[pyfunction]
pub fn after_fork_in_parent() {
    release(STOPPED.swap(std::ptr::null_mut(), Ordering::AcqRel));
}

/// The child forgets the runtime, whose threads it does not have, and everything that was made on it.
#[pyfunction]
pub fn after_fork_in_child() {
    STOPPED.store(std::ptr::null_mut(), Ordering::Release);
    RUNTIME.store(std::ptr::null_mut(), Ordering::Release);
    ForkCount::increment();
}

fn release(stopped: *mut StoppedWorkers) {
    if stopped.is_null() {
        return;
    }
    // SAFETY: the pointer comes from `Arc::into_raw` in `before_fork`, and the swap has taken it out for this call alone.
    let stopped = unsafe { Arc::from_raw(stopped) };
    stopped.may_go_on.store(true, Ordering::Release);
}
