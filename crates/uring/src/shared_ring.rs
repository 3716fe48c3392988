//! Reads of all threads of a runtime over one shared ring, whose completions are events of the runtime, like a socket's.
//!
//! Unsafe, because submission entries point to memory, because threads use the ring's submission and completion queue at the same
//! time, and to register its descriptor. A thread pushes entries while it holds `submitting`; one task takes the completions.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::BytesMut;
use io_uring::{IoUring, squeue};
use parking_lot::{Mutex, MutexGuard};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::ring_read::{InFlightReads, ReadFuture, ReadRequest, RingRead, completion_result};

/// Submission entries of the ring: more than there are device waits at a time.
const RING_ENTRIES: u32 = 128;

/// Most attempts to submit while the kernel has no memory for the entry.
const SUBMIT_RETRIES: usize = 1000;

/// Longest wait of a thread for another one that is submitting a read: a submission takes microseconds, unless the disk hangs.
const SUBMIT_LOCK_TIMEOUT: Duration = Duration::from_millis(1);

static SHARED_RING: Mutex<Option<Arc<SharedRing>>> = Mutex::new(None);

struct SharedRing {
    uring: IoUring,
    /// Held during a submission, in which the kernel may wait for the disk.
    submitting: Mutex<()>,
    /// When the ring is closed, the reads that are left are abandoned.
    in_flight: Mutex<InFlightReads>,
}

pub(crate) fn read(request: ReadRequest) -> Result<ReadFuture, BytesMut> {
    let ring = SHARED_RING.lock().clone();
    let Some(ring) = ring else {
        return Err(request.into);
    };
    let Some(submitting) = ring.submitting.try_lock_for(SUBMIT_LOCK_TIMEOUT) else {
        return Err(request.into);
    };
    let (read, command) = request.start()?;
    let submitted = ring.submit(&submitting, read.clone(), command);
    drop(submitting);
    if let Err(error) = submitted {
        // The kernel may still take the entries that were pushed: close the whole ring, so that their readers read without it.
        close(&Arc::downgrade(&ring));
        tracing::warn!(%error, "io_uring accepts no more reads; from now on the thread pool reads files");
    }
    Ok(ReadFuture(read))
}

/// Removes the ring from `SHARED_RING`. It is freed when the last thread that uses it has finished.
fn close(ring: &Weak<SharedRing>) {
    let mut served = SHARED_RING.lock();
    let is_same = served
        .as_ref()
        .is_some_and(|served| std::ptr::eq(Arc::as_ptr(served), ring.as_ptr()));
    let ring = is_same.then(|| served.take());
    drop(served);
    // Only after the unlock: this drop may wake a task, and the task may call `read`.
    drop(ring);
}

impl SharedRing {
    fn new() -> io::Result<SharedRing> {
        Ok(SharedRing {
            uring: IoUring::builder()
                .setup_cqsize(2 * RING_ENTRIES)
                .build(RING_ENTRIES)?,
            submitting: Mutex::default(),
            in_flight: Mutex::default(),
        })
    }

    fn submit(
        &self,
        _submitting: &MutexGuard<()>,
        read: Arc<RingRead>,
        command: squeue::Entry,
    ) -> io::Result<()> {
        let number = self.in_flight.lock().insert(read);
        let command = command.user_data(number as u64);
        // SAFETY: the caller holds `submitting`, so no other thread uses the submission queue. `in_flight` keeps the buffer and
        // the file until it gets the completion; without one it never frees them.
        let pushed = unsafe { self.uring.submission_shared().push(&command) };
        pushed.map_err(|_| io::Error::other("the submission queue is full"))?;
        for _ in 0..SUBMIT_RETRIES {
            match self.uring.submit() {
                Err(error) if is_transient(&error) => std::thread::yield_now(),
                done => return done.map(drop),
            }
        }
        Err(io::Error::other(
            "the kernel has no memory for a submission",
        ))
    }

    /// Takes the completions.
    ///
    /// # Safety
    /// No other thread calls this at the same time.
    unsafe fn reap(&self) -> Vec<(Arc<RingRead>, io::Result<u32>)> {
        // SAFETY: no other thread uses the completion queue, as the caller promised.
        let completions = unsafe { self.uring.completion_shared() };
        let mut in_flight = self.in_flight.lock();
        let done = completions.filter_map(|completion| {
            let read = in_flight.remove(completion.user_data() as usize)?;
            Some((read, completion_result(completion.result())))
        });
        done.collect()
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN))
}

/// Serves the reads of this process until the future is dropped; runs as a task of the runtime whose threads read. A process has
/// one such task at a time.
///
/// # Errors
/// When the kernel has no io_uring or denies it to this process, or when another task serves already.
pub async fn serve() -> io::Error {
    match open_shared_ring() {
        Ok(mut driver) => driver.drive().await,
        Err(error) => error,
    }
}

/// A ring, and its descriptor registered with the runtime.
struct RingDriver {
    ring: Weak<SharedRing>,
    descriptor: AsyncFd<OwnedFd>,
}

fn open_shared_ring() -> io::Result<RingDriver> {
    let ring = Arc::new(SharedRing::new()?);
    // SAFETY: the descriptor belongs to `ring`, which is open here.
    let descriptor = unsafe { BorrowedFd::borrow_raw(ring.uring.as_raw_fd()) };
    let descriptor = descriptor.try_clone_to_owned()?;
    // SAFETY: an `OwnedFd` stays open and refers to the same ring until it is dropped; the `AsyncFd` owns it, and no code takes
    // it out.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    let driver = RingDriver {
        ring: Arc::downgrade(&ring),
        descriptor: watched.map_err(io::Error::from)?,
    };
    let mut served = SHARED_RING.lock();
    if served.is_some() {
        drop(served);
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    *served = Some(ring);
    Ok(driver)
}

impl Drop for RingDriver {
    fn drop(&mut self) {
        close(&self.ring);
    }
}

impl RingDriver {
    async fn drive(&mut self) -> io::Error {
        loop {
            let mut ready = match self.descriptor.readable().await {
                Ok(ready) => ready,
                Err(error) => return error,
            };
            let Some(ring) = self.ring.upgrade() else {
                return io::ErrorKind::BrokenPipe.into();
            };
            // SAFETY: a ring has one `RingDriver`, which is borrowed mutably here.
            let done = unsafe { ring.reap() };
            drop(ring);
            if done.is_empty() {
                // A completion after `reap` is a newer event, which this does not clear.
                ready.clear_ready();
            }
            for (read, result) in done {
                read.complete(result);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use bytes::BytesMut;

    use super::{SHARED_RING, serve};
    use crate::{ReadFuture, ReadableFile, read};

    const SOON: Duration = Duration::from_secs(10);

    async fn completed(reading: ReadFuture) -> BytesMut {
        let result = tokio::time::timeout(SOON, reading).await;
        result.expect("the read completes soon").unwrap()
    }

    /// The test holds `submitting`, as a thread does whose submission waits for a hanging disk.
    #[test]
    fn a_blocked_submission_does_not_block_other_readers() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let serving = runtime.spawn(serve());
        runtime.block_on(tokio::task::yield_now());
        assert!(!serving.is_finished(), "no ring");
        let (reads, mut writes) = std::io::pipe().unwrap();
        let file: ReadableFile = std::sync::Arc::new(reads);
        let before = read(&file, BytesMut::new(), 4, 0).ok().unwrap();
        let ring = SHARED_RING.lock().clone().unwrap();
        let submitting = ring.submitting.lock();
        let had = read(&file, BytesMut::from(&b"had"[..]), 4, 0);
        assert_eq!(
            &had.err().unwrap()[..],
            b"had",
            "the caller gets its buffer back"
        );
        writes.write_all(b"late").unwrap();
        assert_eq!(&runtime.block_on(completed(before))[..], b"late");
        drop(submitting);
        let after = read(&file, BytesMut::new(), 4, 0).ok().unwrap();
        writes.write_all(b"more").unwrap();
        assert_eq!(&runtime.block_on(completed(after))[..], b"more");
    }
}
