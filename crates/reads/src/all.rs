//! Reads of all threads of a runtime over one ring, whose completions are events of the runtime like a socket's.
//!
//! Unsafe, because commands point to memory, and to watch a ring's descriptor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use io_uring::{IoUring, squeue};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::one::{Read, Reading, UnderWay, Wish, outcome};

/// Reads under way at most; the next ones are not taken.
const MOST: u32 = 256;

/// So often in a row the kernel may refuse a command for want of memory.
const PATIENCE: usize = 1000;

static SERVED: Mutex<Option<Ring>> = Mutex::new(None);

struct Ring {
    uring: IoUring,
    /// What is left is given up when the ring is closed.
    under_way: UnderWay,
    count: u32,
}

/// A push or an end leaves nothing half done.
fn served() -> MutexGuard<'static, Option<Ring>> {
    SERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn read(wish: Wish) -> Result<Reading, BytesMut> {
    let mut served = served();
    let Some(ring) = served.as_mut().filter(|ring| ring.count < MOST) else {
        return Err(wish.into);
    };
    let (read, command) = wish.begin();
    if let Err(error) = ring.submit(read.clone(), command) {
        // What it was given may be submitted still: it goes as a whole, and whoever waits reads in another way.
        let ring = served.take();
        drop(served);
        tracing::warn!(%error, "files are read by the pool from here on: the ring takes nothing more");
        drop(ring);
    }
    Ok(Reading(read))
}

impl Ring {
    fn new() -> io::Result<Ring> {
        Ok(Ring {
            uring: IoUring::builder().setup_cqsize(2 * MOST).build(MOST)?,
            under_way: UnderWay::default(),
            count: 0,
        })
    }

    fn submit(&mut self, read: Arc<Read>, command: squeue::Entry) -> io::Result<()> {
        self.count += 1;
        let command = command.user_data(self.under_way.add(read) as u64);
        // SAFETY: `under_way` keeps what it points to until it was told of the completion, or for ever.
        let pushed = unsafe { self.uring.submission().push(&command) };
        pushed.map_err(|_| io::Error::other("it is full"))?;
        for _ in 0..PATIENCE {
            match self.uring.submit() {
                Err(error) if is_passing(&error) => std::thread::yield_now(),
                done => return done.map(drop),
            }
        }
        Err(io::Error::other("the kernel is out of memory for it"))
    }

    /// What was completed.
    fn reap(&mut self) -> Vec<(Arc<Read>, io::Result<u32>)> {
        let completions = self.uring.completion();
        let done: Vec<_> = completions
            .filter_map(|completion| {
                let read = self.under_way.end(completion.user_data() as usize)?;
                Some((read, outcome(completion.result())))
            })
            .collect();
        self.count -= done.len() as u32;
        done
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
        Ok(ring) => reap_for_ever(&ring).await,
        Err(error) => error,
    }
}

/// The ring's descriptor, watched by the runtime.
struct Watched(AsyncFd<OwnedFd>);

fn begin() -> io::Result<Watched> {
    let ring = Ring::new()?;
    // SAFETY: it is the ring's, which is open here.
    let descriptor = unsafe { BorrowedFd::borrow_raw(ring.uring.as_raw_fd()) };
    let descriptor = descriptor.try_clone_to_owned()?;
    // SAFETY: an `OwnedFd` is open and names the same ring as long as it lives; the `AsyncFd` owns it, and nobody takes it out.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    let watched = watched.map_err(io::Error::from)?;
    let mut served = served();
    if served.is_some() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    *served = Some(ring);
    Ok(Watched(watched))
}

impl Drop for Watched {
    fn drop(&mut self) {
        let ring = served().take();
        // Not while it is locked: whoever is woken may read.
        drop(ring);
    }
}

async fn reap_for_ever(ring: &Watched) -> io::Error {
    loop {
        let mut ready = match ring.0.readable().await {
            Ok(ready) => ready,
            Err(error) => return error,
        };
        let done = match served().as_mut() {
            Some(ring) => ring.reap(),
            None => return io::ErrorKind::BrokenPipe.into(),
        };
        if done.is_empty() {
            // What came after the look is a newer event, which this does not clear.
            ready.clear_ready();
        }
        for (read, outcome) in done {
            read.finish(outcome);
        }
    }
}
