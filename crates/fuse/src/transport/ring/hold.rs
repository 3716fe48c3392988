//! A place that is in our hands, and who uses its memory.
//!
//! A request that came is `Incoming`: its message can be read. Then it is a `Hold`, of which there may be clones; the place
//! stays ours as long as one is left. One of them may be made `Lent`: it alone has bytes of the payload. The answer is
//! written when the last hold goes, so when nobody has bytes of the place any more.

use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::error;

use super::home::Home;
use super::layout::{HEADERS, PIECES};
use super::memory::Memory;
use crate::answer::Answer;
use crate::limits::OUT_HEADER;
use crate::{Errno, Unique};

/// `struct iovec`: a piece of the memory that the kernel is shown.
#[repr(C)]
pub struct Vector {
    base: usize,
    length: usize,
}

/// One place of a queue.
pub struct Place {
    pub memory: Memory,
    /// What the kernel is shown when it gets the place: headers and payload.
    pub vectors: [Vector; PIECES as usize],
    home: Arc<Home>,
    pub queue: u16,
    number: u32,
    /// The request that it holds.
    commit_id: AtomicU64,
    holds: AtomicUsize,
    /// The payload is somebody's.
    lent: AtomicBool,
    /// What is to be written when the last hold goes.
    waiting: Mutex<Option<Waiting>>,
    /// The most bytes of the payload in use since its pages were released.
    pub touched: AtomicU32,
}

/// An answer that cannot be written yet, or is about to be.
struct Waiting {
    unique: Unique,
    answer: Answer,
    /// Bytes of the payload that are the end of the answer: they were lent as scratch, and lie there already.
    in_place: usize,
}

impl Place {
    pub fn new(memory: Memory, home: Arc<Home>, queue: u16, number: u32) -> Place {
        let [headers, payload] = memory.addresses();
        let vector = |base: *mut u8, length| Vector {
            base: base as usize,
            length,
        };
        Place {
            vectors: [vector(headers, HEADERS), vector(payload, memory.capacity())],
            memory,
            home,
            queue,
            number,
            commit_id: AtomicU64::new(0),
            holds: AtomicUsize::new(0),
            lent: AtomicBool::new(false),
            waiting: Mutex::new(None),
            touched: AtomicU32::new(0),
        }
    }

    pub fn commit_id(&self) -> u64 {
        self.commit_id.load(Ordering::Relaxed)
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self, bytes: usize) {
        self.touched.fetch_max(bytes as u32, Ordering::Relaxed);
    }

    /// The last hold is gone, or is the caller's.
    fn finish(&self, mut waiting: Waiting) {
        let (unique, in_place) = (waiting.unique, waiting.in_place);
        let written = waiting
            .answer
            .with_pieces(unique, |pieces| self.write(pieces, in_place));
        if written.is_none() {
            error!(%unique, bytes = waiting.answer.body(), "an answer is longer than any request asks for");
            Answer::error(Errno::EIO).with_pieces(unique, |pieces| self.write(pieces, 0));
        }
        self.home.answered(self.number);
    }

    /// Writes the pieces of a message, the first of which begins with the header, and what is in place. The caller has the
    /// last hold.
    fn write(&self, pieces: &[IoSlice<'_>], in_place: usize) -> Option<usize> {
        let (head, small) = pieces.first()?.split_first_chunk::<OUT_HEADER>()?;
        let rest = pieces[1..].iter().map(|piece| &piece[..]);
        // SAFETY: the last hold means that the place is ours and nobody has bytes of it but this function. What is in place
        // is the only piece in it; `write_answer` takes its pieces one after the other, and others come before it only when
        // they are empty (`Hold::answer`).
        let length = unsafe {
            let in_place = self.memory.payload(in_place);
            let body = std::iter::once(small).chain(rest);
            let all = body.chain(std::iter::once(in_place));
            self.memory
                .write_answer(head, all.filter(|piece| !piece.is_empty()))
        };
        self.touch(length.unwrap_or(0));
        length
    }
}

/// A request that came just now.
pub(crate) struct Incoming {
    hold: Hold,
    /// None if the kernel's lengths contradict each other.
    length: Option<usize>,
    /// So many places of its queue are ours that it should not wait long for anything.
    pub crowded: bool,
}

impl Incoming {
    /// # Safety
    /// The kernel has completed the place's last command, and there was no `Incoming` for that yet.
    pub unsafe fn new(place: &Arc<Place>, crowded: bool) -> Incoming {
        debug_assert_eq!(place.holds.load(Ordering::Relaxed), 0);
        place.holds.store(1, Ordering::Relaxed);
        place.lent.store(false, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        let (commit_id, length) = unsafe { place.memory.put_together() };
        place.commit_id.store(commit_id, Ordering::Relaxed);
        place.touch(length.unwrap_or(0));
        let place = place.clone();
        let hold = Hold {
            place,
            finished: false,
        };
        Incoming {
            hold,
            length,
            crowded,
        }
    }

    /// Empty if it cannot be read.
    pub fn message(&self) -> &[u8] {
        match self.length {
            // SAFETY: the place is ours. Nobody writes: this is the only hold, and it lends nothing while it is borrowed.
            Some(length) => unsafe { self.hold.place.memory.message(length) },
            None => &[],
        }
    }

    /// Bytes of the message that lie before the payload's pages.
    pub fn before_payload(&self) -> usize {
        // SAFETY: the place is ours, and this is the only hold: there is no answer.
        let payload = unsafe { self.hold.place.memory.payload_bytes() };
        self.length.map_or(0, |length| length - payload)
    }

    /// The kernel's number of the request, also if its message cannot be read.
    pub fn unique(&self) -> Unique {
        Unique(self.hold.place.commit_id())
    }

    pub fn into_hold(self) -> Hold {
        self.hold
    }
}

/// Somebody's part in a place that is ours.
pub(crate) struct Hold {
    place: Arc<Place>,
    finished: bool,
}

impl Hold {
    /// Lends the payload; None if it is somebody's already.
    pub fn lend(&self) -> Option<Lent> {
        let was = self.place.lent.swap(true, Ordering::AcqRel);
        (!was).then(|| Lent { hold: self.clone() })
    }

    pub fn capacity(&self) -> usize {
        self.place.memory.capacity()
    }

    /// Gives the request its answer. It is written when the last hold goes; this one goes now.
    pub fn answer(mut self, unique: Unique, mut answer: Answer) {
        let in_place = answer.take_lent(|lent| Arc::ptr_eq(&lent.hold.place, &self.place));
        let waiting = Waiting {
            unique,
            answer,
            in_place: in_place.unwrap_or(0),
        };
        // Only who has a hold can make another: if there is one, it is ours and stays the only one.
        if self.place.holds.load(Ordering::Acquire) == 1 {
            self.finished = true;
            self.place.holds.store(0, Ordering::Relaxed);
            self.place.finish(waiting);
        } else {
            *self.place.waiting() = Some(waiting);
        }
    }
}

impl Clone for Hold {
    fn clone(&self) -> Hold {
        self.place.holds.fetch_add(1, Ordering::Relaxed);
        Hold {
            place: self.place.clone(),
            finished: false,
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // As in an `Arc`: what the others did with the bytes happened before the last one goes on.
        if self.finished || self.place.holds.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        let waiting = self.place.waiting().take();
        match waiting {
            Some(waiting) => self.place.finish(waiting),
            None => unreachable!("whoever has to answer has a hold"),
        }
    }
}

/// The hold that has the payload.
pub(crate) struct Lent {
    hold: Hold,
}

impl Lent {
    pub fn capacity(&self) -> usize {
        self.hold.capacity()
    }

    pub fn bytes(&self, length: usize) -> &[u8] {
        // SAFETY: the place is ours while there is a hold, and of those there are only this one has the payload. To write
        // it must be borrowed mutably.
        unsafe { self.hold.place.memory.payload(length) }
    }

    pub fn bytes_mut(&mut self, length: usize) -> &mut [u8] {
        // SAFETY: the same.
        unsafe { self.hold.place.memory.payload_mut(length) }
    }
}
