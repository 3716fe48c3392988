//! Reads of all threads of a runtime over one ring, whose completions are events of the runtime like a socket's.
//!
//! Unsafe, because commands point to memory, because a ring's two ends are used side by side, and to watch its descriptor. Commands
//! are pushed by whoever holds `submitting`; completions are taken by the one task that serves the ring.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::BytesMut;
use io_uring::{IoUring, squeue};
use parking_lot::{Mutex, MutexGuard};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::one::{Read, Reading, UnderWay, Wish, outcome};

/// Commands that the ring has room for: more than there are waits at a time.
const ROOM: u32 = 128;

/// So often in a row the kernel may refuse a command for want of memory.
const REFUSALS: usize = 1000;

/// So long a thread waits for another that gives a read to the kernel, which takes microseconds, unless the disk hangs.
const TURN: Duration = Duration::from_millis(1);

static SERVED: Mutex<Option<Arc<Ring>>> = Mutex::new(None);

struct Ring {
    uring: IoUring,
    /// Held while the kernel takes a command, for which it may wait for the disk.
    submitting: Mutex<()>,
    /// What is left is given up when the ring is closed.
    under_way: Mutex<UnderWay>,
}

pub(crate) fn read(wish: Wish) -> Result<Reading, BytesMut> {
    let ring = SERVED.lock().clone();
    let Some(ring) = ring else {
        return Err(wish.into);
    };
    let Some(turn) = ring.submitting.try_lock_for(TURN) else {
        return Err(wish.into);
    };
    let (read, command) = wish.begin()?;
    let submitted = ring.submit(&turn, read.clone(), command);
    drop(turn);
    if let Err(error) = submitted {
        // What it was given may be submitted still: it goes as a whole, and whoever waits reads in another way.
        close(&Arc::downgrade(&ring));
        tracing::warn!(%error, "files are read by the pool from here on: the ring takes nothing more");
    }
    Ok(Reading(read))
}

/// Nobody finds the ring any more. Who has it still has it the last.
fn close(ring: &Weak<Ring>) {
    let mut served = SERVED.lock();
    let is_it = served
        .as_ref()
        .is_some_and(|served| std::ptr::eq(Arc::as_ptr(served), ring.as_ptr()));
    let ring = is_it.then(|| served.take());
    drop(served);
    // Not while it is locked: whoever is woken may read.
    drop(ring);
}

impl Ring {
    fn new() -> io::Result<Ring> {
        Ok(Ring {
            uring: IoUring::builder().setup_cqsize(2 * ROOM).build(ROOM)?,
            submitting: Mutex::default(),
            under_way: Mutex::default(),
        })
    }

    fn submit(
        &self,
        _turn: &MutexGuard<()>,
        read: Arc<Read>,
        command: squeue::Entry,
    ) -> io::Result<()> {
        let number = self.under_way.lock().add(read);
        let command = command.user_data(number as u64);
        // SAFETY: whoever has the turn is alone at this end of the ring. `under_way` keeps what the command points to until it
        // was told of the completion, or for ever.
        let pushed = unsafe { self.uring.submission_shared().push(&command) };
        pushed.map_err(|_| io::Error::other("it is full"))?;
        for _ in 0..REFUSALS {
            match self.uring.submit() {
                Err(error) if is_passing(&error) => std::thread::yield_now(),
                done => return done.map(drop),
            }
        }
        Err(io::Error::other("the kernel is out of memory for it"))
    }

    /// What was completed.
    ///
    /// # Safety
    /// Nobody else does this at the same time.
    unsafe fn reap(&self) -> Vec<(Arc<Read>, io::Result<u32>)> {
        // SAFETY: the caller is alone at this end of the ring.
        let completions = unsafe { self.uring.completion_shared() };
        let mut under_way = self.under_way.lock();
        let done = completions.filter_map(|completion| {
            let read = under_way.end(completion.user_data() as usize)?;
            Some((read, outcome(completion.result())))
        });
        done.collect()
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN))
}

/// Serves the reads of this process until it is dropped; a task of the runtime whose threads read. One at a time.
///
/// # Errors
/// When it cannot begin: the kernel has no rings, or not for us, or another serves already.
pub async fn serve() -> io::Error {
    match begin() {
        Ok(mut ring) => ring.reap_for_ever().await,
        Err(error) => error,
    }
}

/// A ring, and its descriptor, watched by the runtime.
struct Watched {
    ring: Weak<Ring>,
    descriptor: AsyncFd<OwnedFd>,
}

fn begin() -> io::Result<Watched> {
    let ring = Arc::new(Ring::new()?);
    // SAFETY: it is the ring's, which is open here.
    let descriptor = unsafe { BorrowedFd::borrow_raw(ring.uring.as_raw_fd()) };
    let descriptor = descriptor.try_clone_to_owned()?;
    // SAFETY: an `OwnedFd` is open and names the same ring as long as it lives; the `AsyncFd` owns it, and nobody takes it out.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    let watched = Watched {
        ring: Arc::downgrade(&ring),
        descriptor: watched.map_err(io::Error::from)?,
    };
    let mut served = SERVED.lock();
    if served.is_some() {
        drop(served);
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    *served = Some(ring);
    Ok(watched)
}

impl Drop for Watched {
    fn drop(&mut self) {
        close(&self.ring);
    }
}

impl Watched {
    async fn reap_for_ever(&mut self) -> io::Error {
        loop {
            let mut ready = match self.descriptor.readable().await {
                Ok(ready) => ready,
                Err(error) => return error,
            };
            let Some(ring) = self.ring.upgrade() else {
                return io::ErrorKind::BrokenPipe.into();
            };
            // SAFETY: a ring has one `Watched`, which is borrowed mutably here.
            let done = unsafe { ring.reap() };
            drop(ring);
            if done.is_empty() {
                // What came after the look is a newer event, which this does not clear.
                ready.clear_ready();
            }
            for (read, outcome) in done {
                read.finish(outcome);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use bytes::BytesMut;

    use super::{SERVED, serve};
    use crate::{File, Reading, read};

    const SOON: Duration = Duration::from_secs(10);

    async fn ends(reading: Reading) -> BytesMut {
        let ended = tokio::time::timeout(SOON, reading).await;
        ended.expect("it ends soon").unwrap()
    }

    /// As while the disk hangs for which the kernel takes a read.
    #[test]
    fn who_gives_a_read_to_the_ring_keeps_nobody_else() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let serving = runtime.spawn(serve());
        runtime.block_on(tokio::task::yield_now());
        assert!(!serving.is_finished(), "no ring");
        let (reads, mut writes) = std::io::pipe().unwrap();
        let file: File = std::sync::Arc::new(reads);
        let before = read(&file, BytesMut::new(), 4, 0).ok().unwrap();
        let ring = SERVED.lock().clone().unwrap();
        let turn = ring.submitting.lock();
        let had = read(&file, BytesMut::from(&b"had"[..]), 4, 0);
        assert_eq!(&had.err().unwrap()[..], b"had", "the buffer comes back");
        writes.write_all(b"late").unwrap();
        assert_eq!(&runtime.block_on(ends(before))[..], b"late");
        drop(turn);
        let after = read(&file, BytesMut::new(), 4, 0).ok().unwrap();
        writes.write_all(b"more").unwrap();
        assert_eq!(&runtime.block_on(ends(after))[..], b"more");
    }
}
