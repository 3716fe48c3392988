//! One read, and those that a ring has under way.
//!
//! Unsafe, because the kernel writes into memory that is not initialised yet (`BytesMut`'s spare room) while nobody holds a
//! reference to it.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{BufMut, BytesMut};
use io_uring::types::Fd;
use io_uring::{opcode, squeue};

/// A file that stays open while it is read.
pub type File = Arc<dyn AsFd + Send + Sync>;

/// The ring and who waits for it have it together.
pub struct Read {
    file: File,
    offset: u64,
    len: u32,
    state: Mutex<State>,
}

enum State {
    /// From here on the spare room of `into` is the kernel's, until it has completed the read.
    UnderWay {
        into: BytesMut,
        waker: Option<Waker>,
    },
    Done(io::Result<BytesMut>),
    Taken,
}

/// A read under way: the buffer with what was read behind what it held, at least a byte unless the file ends there.
///
/// # Errors
/// The kernel's; `Interrupted` if the ring was closed. The buffer is gone then.
pub struct Reading(pub(crate) Arc<Read>);

impl Future for Reading {
    type Output = io::Result<BytesMut>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state();
        if let State::UnderWay { waker, .. } = &mut *state {
            *waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(result) => Poll::Ready(result),
            // Nobody polls a finished future.
            State::UnderWay { .. } | State::Taken => Poll::Pending,
        }
    }
}

impl Read {
    pub fn new(file: &File, mut into: BytesMut, len: u32, offset: u64) -> Arc<Read> {
        into.reserve(len as usize);
        Arc::new(Read {
            file: file.clone(),
            offset,
            len,
            state: Mutex::new(State::UnderWay { into, waker: None }),
        })
    }

    /// Every change of it is a single assignment.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None if it was finished already.
    fn command(&self) -> Option<squeue::Entry> {
        let mut state = self.state();
        let State::UnderWay { into, .. } = &mut *state else {
            return None;
        };
        let room = into.chunk_mut();
        debug_assert!(room.len() >= self.len as usize, "room was reserved");
        let file = Fd(self.file.as_fd().as_raw_fd());
        let read = opcode::Read::new(file, room.as_mut_ptr(), self.len);
        Some(read.offset(self.offset).build())
    }

    /// The kernel has completed it, or never sees it.
    pub(crate) fn finish(&self, result: io::Result<u32>) {
        let mut state = self.state();
        let State::UnderWay { into, waker } = &mut *state else {
            return;
        };
        let (mut into, waker) = (std::mem::take(into), waker.take());
        *state = State::Done(result.map(|got| {
            let got = got.min(self.len) as usize;
            // SAFETY: the kernel has written so many bytes at the beginning of the spare room, which is `len` long.
            unsafe { into.advance_mut(got) };
            into
        }));
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The kernel may write into the buffer still: nobody gets it, ever.
    fn give_up(&self) {
        let mut state = self.state();
        if let State::UnderWay { into, waker } = &mut *state {
            std::mem::forget(std::mem::take(into));
            let waker = waker.take();
            *state = State::Done(Err(io::ErrorKind::Interrupted.into()));
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// Reads that a ring has, by the number that their commands carry.
#[derive(Default)]
pub struct UnderWay {
    reads: Vec<Option<Arc<Read>>>,
    free: Vec<usize>,
}

impl UnderWay {
    /// The read's number and its command. What the command points to lives until `completed` was told of the number, or for
    /// ever. None if it was finished already.
    pub fn begin(&mut self, read: Arc<Read>) -> Option<(usize, squeue::Entry)> {
        let command = read.command()?;
        let number = self.free.pop().unwrap_or(self.reads.len());
        if number == self.reads.len() {
            self.reads.push(None);
        }
        self.reads[number] = Some(read);
        Some((number, command))
    }

    /// The read that a completion belongs to.
    pub fn end(&mut self, number: usize) -> Option<Arc<Read>> {
        let read = self.reads.get_mut(number)?.take()?;
        self.free.push(number);
        Some(read)
    }
}

/// What a completion says.
pub fn outcome(result: i32) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

impl Drop for UnderWay {
    /// Whoever waits is told.
    fn drop(&mut self) {
        self.reads
            .drain(..)
            .flatten()
            .for_each(|read| read.give_up());
    }
}
