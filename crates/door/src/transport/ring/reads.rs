//! Reads of files that wait on a ring's thread without keeping it.
//!
//! Who is polled by that thread asks for a read with [`read_here`]; the ring submits it with its next commands and takes its
//! completion like any other. No second thread is woken for the read, and none for what is done with it.
//!
//! Unsafe, because the kernel writes into memory that is not initialised yet (`BytesMut`'s spare room) while nobody holds a
//! reference to it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{BufMut, BytesMut};
use io_uring::types::Fd;
use io_uring::{opcode, squeue};

thread_local! {
    /// Reads that this thread's ring has not seen yet. None on threads without a ring.
    static ASKED: RefCell<Option<VecDeque<Arc<Read>>>> = const { RefCell::new(None) };
}

/// A file that stays open while it is read.
pub type ReadFile = Arc<dyn AsFd + Send + Sync>;

/// One read. The ring and who waits for it have it together.
struct Read {
    file: ReadFile,
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

/// What [`read_here`] returns: the buffer with what was read behind what it held, at least a byte unless the file ends there.
///
/// # Errors
/// The kernel's; `Interrupted` if the ring was closed. The buffer is gone then.
pub struct Reading(Arc<Read>);

/// Begins to read up to `len` bytes behind what `into` holds, over the ring of the calling thread.
///
/// # Errors
/// Returns the buffer if this thread has no ring: it is not a reactor's, or its mount has no rings.
pub fn read_here(
    file: &ReadFile,
    mut into: BytesMut,
    len: u32,
    offset: u64,
) -> Result<Reading, BytesMut> {
    ASKED.with_borrow_mut(|asked| {
        let Some(asked) = asked else {
            return Err(into);
        };
        into.reserve(len as usize);
        let read = Arc::new(Read {
            file: file.clone(),
            offset,
            len,
            state: Mutex::new(State::UnderWay { into, waker: None }),
        });
        asked.push_back(read.clone());
        Ok(Reading(read))
    })
}

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
    /// Every change of it is a single assignment.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The command; None if it was finished already.
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

    fn finish(&self, result: io::Result<u32>) {
        let mut state = self.state();
        let now = std::mem::replace(&mut *state, State::Taken);
        let State::UnderWay { mut into, waker } = now else {
            *state = now;
            return;
        };
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
}

/// The ring's half: what it has submitted.
pub struct Reads {
    under_way: Vec<Option<Arc<Read>>>,
    free: Vec<usize>,
}

impl Reads {
    /// The reads of the calling thread, from here on.
    pub fn here() -> Reads {
        ASKED.set(Some(VecDeque::new()));
        Reads {
            under_way: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The next one that was asked for: its place here and its command. What the command points to lives until `completed`
    /// was told of the place, or for ever.
    pub fn next(&mut self) -> Option<(usize, squeue::Entry)> {
        loop {
            let read = ASKED.with_borrow_mut(|asked| asked.as_mut()?.pop_front())?;
            let Some(command) = read.command() else {
                continue;
            };
            let place = self.free.pop().unwrap_or(self.under_way.len());
            if place == self.under_way.len() {
                self.under_way.push(None);
            }
            self.under_way[place] = Some(read);
            return Some((place, command));
        }
    }

    /// # Safety
    /// The kernel has completed the command that `next` gave for this place: it does not write any more.
    pub unsafe fn completed(&mut self, place: usize, result: i32) {
        let Some(read) = self.under_way.get_mut(place).and_then(Option::take) else {
            debug_assert!(false, "a completion of no read");
            return;
        };
        self.free.push(place);
        read.finish(match u32::try_from(result) {
            Ok(got) => Ok(got),
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        });
    }
}

impl Drop for Reads {
    /// Whoever waits is told. Buffers that the kernel may still write into are given to nobody, ever.
    fn drop(&mut self) {
        let never_seen = ASKED.take().unwrap_or_default();
        let under_way = self.under_way.drain(..).flatten();
        for read in under_way {
            let mut state = read.state();
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
        for read in never_seen {
            read.finish(Err(io::ErrorKind::Interrupted.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(bytes: &[u8]) -> ReadFile {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Arc::new(file)
    }

    fn poll(reading: &mut Reading) -> Poll<io::Result<BytesMut>> {
        Pin::new(reading).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_thread_without_a_ring_gets_its_buffer_back() {
        let had = BytesMut::from(&b"had"[..]);
        let back = read_here(&file(b"bytes"), had, 5, 0).err().unwrap();
        assert_eq!(&back[..], b"had");
    }

    #[test]
    fn what_is_read_stands_behind_what_was_there() {
        let mut ring = io_uring::IoUring::new(8).unwrap();
        let mut reads = Reads::here();
        let file = file(b"0123456789");
        let had = BytesMut::from(&b"had "[..]);
        let mut readings = [(4u32, 2u64), (100, 7), (4, 10)]
            .map(|(len, offset)| read_here(&file, had.clone(), len, offset).ok().unwrap());
        assert!(poll(&mut readings[0]).is_pending());
        while let Some((place, command)) = reads.next() {
            // SAFETY: `reads` keeps the buffers until each is completed, below.
            unsafe { ring.submission().push(&command.user_data(place as u64)) }.unwrap();
        }
        ring.submit_and_wait(3).unwrap();
        for completion in ring.completion().collect::<Vec<_>>() {
            // SAFETY: it is the completion of that place's command.
            unsafe { reads.completed(completion.user_data() as usize, completion.result()) };
        }
        let found = readings.each_mut().map(|reading| match poll(reading) {
            Poll::Ready(read) => String::from_utf8(read.unwrap().to_vec()).unwrap(),
            Poll::Pending => panic!("it was completed"),
        });
        assert_eq!(found, ["had 2345", "had 789", "had "]);
        assert_eq!(reads.free.len(), 3);
    }

    #[test]
    fn a_ring_that_is_closed_ends_its_reads() {
        let mut reads = Reads::here();
        let file = file(b"bytes");
        let mut seen = read_here(&file, BytesMut::new(), 5, 0).ok().unwrap();
        reads.next().unwrap();
        let mut unseen = read_here(&file, BytesMut::new(), 5, 0).ok().unwrap();
        drop(reads);
        for reading in [&mut seen, &mut unseen] {
            match poll(reading) {
                Poll::Ready(Err(error)) => assert_eq!(error.kind(), io::ErrorKind::Interrupted),
                other => panic!("{other:?}"),
            }
        }
        assert!(read_here(&file, BytesMut::new(), 5, 0).is_err());
    }
}
