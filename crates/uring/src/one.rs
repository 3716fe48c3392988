//! One read, and those that a ring has under way.
//!
//! Unsafe, because the kernel writes into memory that is not initialised yet (`BytesMut`'s spare room) while nobody holds a
//! reference to it.

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

use crate::patience::{Mine, Wait};

/// A file that stays open while it is read.
pub type File = Arc<dyn AsFd + Send + Sync>;

/// The ring and who waits for it have it together.
pub struct Read {
    /// Open as long as the kernel may read it.
    _file: File,
    len: u32,
    state: Mutex<State>,
}

enum State {
    /// From here on the spare room of `into` is the kernel's, until it has completed the read.
    UnderWay {
        into: BytesMut,
        waker: Option<Waker>,
        _wait: (Wait, Mine),
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
        let mut state = self.0.state.lock();
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

/// What is to be read where.
pub(crate) struct Wish<'a> {
    pub file: &'a File,
    pub into: BytesMut,
    pub len: u32,
    pub offset: u64,
}

impl Wish<'_> {
    /// The read, and the command that does it. That points into the read's buffer, and names its file: both live until the read
    /// has ended, or for ever.
    ///
    /// # Errors
    /// Returns the buffer while nobody shall wait for a device in this way.
    pub fn begin(self) -> Result<(Arc<Read>, squeue::Entry), BytesMut> {
        let Some(wait) = Wait::begin() else {
            return Err(self.into);
        };
        let Wish {
            file,
            mut into,
            len,
            offset,
        } = self;
        into.reserve(len as usize);
        let room = into.chunk_mut();
        assert!(room.len() >= len as usize, "room was reserved");
        let command = opcode::Read::new(Fd(file.as_fd().as_raw_fd()), room.as_mut_ptr(), len);
        let read = Read {
            _file: file.clone(),
            len,
            state: Mutex::new(State::UnderWay {
                into,
                waker: None,
                _wait: (wait, Mine::begin()),
            }),
        };
        Ok((Arc::new(read), command.offset(offset).build()))
    }
}

impl Read {
    /// The kernel has completed it, or never sees it.
    pub fn finish(&self, result: io::Result<u32>) {
        self.end(|mut into| {
            let got = result?.min(self.len) as usize;
            // SAFETY: the kernel has written so many bytes at the beginning of the spare room, which is `len` long.
            unsafe { into.advance_mut(got) };
            Ok(into)
        });
    }

    /// The kernel may write into the buffer still: nobody gets it, ever.
    fn give_up(&self) {
        self.end(|into| {
            std::mem::forget(into);
            Err(io::ErrorKind::Interrupted.into())
        });
    }

    fn end(&self, become_of: impl FnOnce(BytesMut) -> io::Result<BytesMut>) {
        let mut state = self.state.lock();
        let State::UnderWay { into, waker, .. } = &mut *state else {
            return;
        };
        let (into, waker) = (std::mem::take(into), waker.take());
        *state = State::Done(become_of(into));
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
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
    /// The read's number. It stays until `end` is told of that, or for ever.
    pub fn add(&mut self, read: Arc<Read>) -> usize {
        let number = self.free.pop().unwrap_or(self.reads.len());
        if number == self.reads.len() {
            self.reads.push(None);
        }
        self.reads[number] = Some(read);
        number
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
