//! One read over a ring, and the table of a ring's reads in flight.
//!
//! Unsafe, because the kernel writes into memory that is not initialised yet (`BytesMut`'s spare capacity) while no reference to
//! it exists.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{BufMut, BytesMut};
use io_uring::types::Fd;
use io_uring::{opcode, squeue};
use parking_lot::Mutex;

use crate::device_waits::{DeviceWait, ThreadRead};

/// A file that stays open while it is read.
pub type ReadableFile = Arc<dyn AsFd + Send + Sync>;

/// A read, shared by its ring and the future that waits for it.
pub struct RingRead {
    /// Keeps the file open as long as the kernel may read it.
    _file: ReadableFile,
    len: u32,
    state: Mutex<ReadState>,
}

enum ReadState {
    /// The kernel may write the spare capacity of `into` until it has completed the read.
    InFlight {
        into: BytesMut,
        waker: Option<Waker>,
        _wait: (DeviceWait, ThreadRead),
    },
    Done(io::Result<BytesMut>),
    Taken,
}

/// Future of a read: returns the buffer with the bytes appended, at least one unless the file ends there.
///
/// # Errors
/// The kernel's error; `Interrupted` if the ring was closed. The buffer is lost then.
pub struct ReadFuture(pub(crate) Arc<RingRead>);

impl Future for ReadFuture {
    type Output = io::Result<BytesMut>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state.lock();
        if let ReadState::InFlight { waker, .. } = &mut *state {
            *waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, ReadState::Taken) {
            ReadState::Done(result) => Poll::Ready(result),
            // A caller does not poll a finished future.
            ReadState::InFlight { .. } | ReadState::Taken => Poll::Pending,
        }
    }
}

/// Parameters of a read.
pub(crate) struct ReadRequest<'a> {
    pub file: &'a ReadableFile,
    pub into: BytesMut,
    pub len: u32,
    pub offset: u64,
}

impl ReadRequest<'_> {
    /// The read and its submission entry. The entry points into the read's buffer and contains its file descriptor: both stay
    /// valid until the read has completed; without a completion they are never freed.
    ///
    /// # Errors
    /// Returns the buffer while no read may wait for a device (`DeviceWait::begin`).
    pub fn start(self) -> Result<(Arc<RingRead>, squeue::Entry), BytesMut> {
        let Some(wait) = DeviceWait::begin() else {
            return Err(self.into);
        };
        let ReadRequest {
            file,
            mut into,
            len,
            offset,
        } = self;
        into.reserve(len as usize);
        let spare = into.chunk_mut();
        assert!(spare.len() >= len as usize, "capacity was reserved");
        let command = opcode::Read::new(Fd(file.as_fd().as_raw_fd()), spare.as_mut_ptr(), len);
        let read = RingRead {
            _file: file.clone(),
            len,
            state: Mutex::new(ReadState::InFlight {
                into,
                waker: None,
                _wait: (wait, ThreadRead::begin()),
            }),
        };
        Ok((Arc::new(read), command.offset(offset).build()))
    }
}

impl RingRead {
    /// Ends the read: the kernel has completed it, or it was never submitted.
    pub fn complete(&self, result: io::Result<u32>) {
        self.end(|mut into| {
            let got = result?.min(self.len) as usize;
            // SAFETY: the kernel has written `got` bytes at the beginning of the spare capacity, which has `len` bytes.
            unsafe { into.advance_mut(got) };
            Ok(into)
        });
    }

    /// Ends the read without a completion. The kernel may still write into the buffer, so it is never freed or reused.
    fn abandon(&self) {
        self.end(|into| {
            std::mem::forget(into);
            Err(io::ErrorKind::Interrupted.into())
        });
    }

    fn end(&self, result_of: impl FnOnce(BytesMut) -> io::Result<BytesMut>) {
        let mut state = self.state.lock();
        let ReadState::InFlight { into, waker, .. } = &mut *state else {
            return;
        };
        let (into, waker) = (std::mem::take(into), waker.take());
        *state = ReadState::Done(result_of(into));
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The reads of a ring in flight, by the number in their submission entries.
#[derive(Default)]
pub struct InFlightReads {
    reads: Vec<Option<Arc<RingRead>>>,
    free: Vec<usize>,
}

impl InFlightReads {
    /// Adds a read and returns its number. The read stays until `remove` with that number; without that it is never freed.
    pub fn insert(&mut self, read: Arc<RingRead>) -> usize {
        let number = self.free.pop().unwrap_or(self.reads.len());
        if number == self.reads.len() {
            self.reads.push(None);
        }
        self.reads[number] = Some(read);
        number
    }

    /// Removes the read with the number of a completion.
    pub fn remove(&mut self, number: usize) -> Option<Arc<RingRead>> {
        let read = self.reads.get_mut(number)?.take()?;
        self.free.push(number);
        Some(read)
    }
}

/// The result of a completion.
pub fn completion_result(result: i32) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

impl Drop for InFlightReads {
    /// The futures of these reads return an error.
    fn drop(&mut self) {
        self.reads
            .drain(..)
            .flatten()
            .for_each(|read| read.abandon());
    }
}
