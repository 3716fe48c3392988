//! # ring threads: the threads that serve io_uring rings
//!
//! Owns   starting the threads and creating their rings. This happens before INIT is answered: once the kernel has a reply to
//!        INIT that selects io_uring, every request of a program waits until all rings are registered.
//! Never  leaves a partial set: either every queue has a ring, or no ring exists.
//! Enter  at `RingThreads::prepare`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::thread::{CpuSet, sched_setaffinity};
use tracing::debug;

use crate::limits::RING_WORKERS_MAX;
use crate::transport::ring::{Ring, RingInbox};

/// The function that a ring thread runs with its ring.
pub(crate) type RingJob = Box<dyn FnOnce(Ring) + Send>;

/// Threads that have created their rings and wait for a job. They end when this is dropped.
pub(crate) struct RingThreads {
    threads: Vec<RingThread>,
}

struct RingThread {
    inbox: Arc<RingInbox>,
    job_sender: Sender<RingJob>,
}

impl RingThreads {
    /// Creates a ring for each of `queues` queues; above `RING_WORKERS_MAX` queues share threads. The kernel has one queue per
    /// possible CPU and waits until every queue has a ring entry.
    pub fn prepare(
        device: BorrowedFd<'_>,
        queues: usize,
        payload: usize,
        pin: bool,
    ) -> io::Result<RingThreads> {
        let count = queues.min(RING_WORKERS_MAX);
        let pin = pin && count == queues;
        let (mut threads, mut ready_receivers) = (Vec::new(), Vec::new());
        for cpu in 0..count {
            let inbox = Arc::new(RingInbox::new()?);
            let served_queues: Vec<u16> = (cpu..queues)
                .step_by(count)
                .map(|queue| queue as u16)
                .collect();
            let (ring_inbox, device) = (inbox.clone(), device.try_clone_to_owned()?);
            let (job_sender, job) = channel::<RingJob>();
            let (ready_sender, ready) = channel();
            let make = move || {
                if pin {
                    pin_to_cpu(cpu);
                }
                let ring = Ring::new(device.as_fd(), ring_inbox, &served_queues, payload);
                drop(device); // the ring has its own
                match ring {
                    Ok(ring) => {
                        let _ = ready_sender.send(Ok(()));
                        if let Ok(job) = job.recv() {
                            job(ring);
                        }
                    }
                    Err(error) => drop(ready_sender.send(Err(error))),
                }
            };
            thread::Builder::new()
                .name(format!("ring-{cpu}"))
                .spawn(make)?;
            threads.push(RingThread { inbox, job_sender });
            ready_receivers.push(ready);
        }
        for ready in ready_receivers {
            let ended = |_| io::Error::other("a thread ended before it had created its ring");
            ready.recv().map_err(ended)??;
        }
        Ok(RingThreads { threads })
    }

    pub fn count(&self) -> usize {
        self.threads.len()
    }

    pub fn inboxes(&self) -> Vec<Arc<RingInbox>> {
        self.threads
            .iter()
            .map(|thread| thread.inbox.clone())
            .collect()
    }

    /// Sends each thread its job. Returns false if one of the threads has ended.
    pub fn start(self, mut job: impl FnMut(usize) -> RingJob) -> bool {
        let threads = self.threads.into_iter().enumerate();
        threads.fold(true, |all, (index, thread)| {
            thread.job_sender.send(job(index)).is_ok() && all
        })
    }
}

/// The kernel refuses this if the CPU is offline or not in the process's cpuset; then the thread runs unpinned.
fn pin_to_cpu(cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    if let Err(errno) = sched_setaffinity(None, &cpus) {
        debug!(cpu, %errno, "cannot pin the ring thread to its CPU");
    }
}

#[cfg(test)]
mod tests;
