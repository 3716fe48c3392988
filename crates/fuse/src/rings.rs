//! # rings: the threads that serve rings
//!
//! Owns   their making, before the kernel is told that there will be rings: from then on it lets every program wait for them.
//! Never  leaves a ring half made: either all queues have one, or there is none.
//! Enter  at `Rings::prepare`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::thread::{CpuSet, sched_setaffinity};
use tracing::debug;

use crate::limits::RING_REACTORS_MAX;
use crate::transport::ring::{Home, Ring};

/// What a thread does with its ring.
pub(crate) type Job = Box<dyn FnOnce(Ring) + Send>;

/// Threads that wait with their rings for something to do. They end if this is dropped.
pub(crate) struct Rings {
    threads: Vec<Waiting>,
}

struct Waiting {
    home: Arc<Home>,
    go: Sender<Job>,
}

impl Rings {
    /// A ring for each of so many queues; beyond a bound they share threads. The kernel has a queue for each possible CPU, and
    /// waits until all of them have a place.
    pub fn prepare(
        device: BorrowedFd<'_>,
        queues: usize,
        payload: usize,
        pin: bool,
    ) -> io::Result<Rings> {
        let count = queues.min(RING_REACTORS_MAX);
        let pin = pin && count == queues;
        let (mut threads, mut answers) = (Vec::new(), Vec::new());
        for cpu in 0..count {
            let home = Arc::new(Home::new()?);
            let mine: Vec<u16> = (cpu..queues)
                .step_by(count)
                .map(|queue| queue as u16)
                .collect();
            let (of_ring, device) = (home.clone(), device.try_clone_to_owned()?);
            let (go, job) = channel::<Job>();
            let (tell, told) = channel();
            let make = move || {
                if pin {
                    stay_on(cpu);
                }
                let ring = Ring::new(device.as_fd(), of_ring, &mine, payload);
                drop(device); // the ring has its own
                match ring {
                    Ok(ring) => {
                        let _ = tell.send(Ok(()));
                        if let Ok(job) = job.recv() {
                            job(ring);
                        }
                    }
                    Err(error) => drop(tell.send(Err(error))),
                }
            };
            thread::Builder::new()
                .name(format!("ring-{cpu}"))
                .spawn(make)?;
            threads.push(Waiting { home, go });
            answers.push(told);
        }
        for told in answers {
            let ended = |_| io::Error::other("a thread ended before it had a ring");
            told.recv().map_err(ended)??;
        }
        Ok(Rings { threads })
    }

    pub fn count(&self) -> usize {
        self.threads.len()
    }

    pub fn homes(&self) -> Vec<Arc<Home>> {
        self.threads
            .iter()
            .map(|thread| thread.home.clone())
            .collect()
    }

    /// Gives each thread its job. False if one is gone.
    pub fn start(self, mut job: impl FnMut(usize) -> Job) -> bool {
        let threads = self.threads.into_iter().enumerate();
        threads.fold(true, |all, (index, thread)| {
            thread.go.send(job(index)).is_ok() && all
        })
    }
}

/// Refused if the CPU is not there now, or not for us: the thread then runs where it may.
fn stay_on(cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    if let Err(errno) = sched_setaffinity(None, &cpus) {
        debug!(cpu, %errno, "not pinned");
    }
}

#[cfg(test)]
mod tests;
