//! A ring entry, and the references to its memory while this process has it.
//!
//! A new request is an `IncomingRequest`, whose message can be read. It becomes an `EntryRef`, of which there may be clones;
//! the entry stays with this process while one of them exists. One of them may become the `EntryPayload`, which alone accesses
//! the payload bytes. The reply is written when the last reference is dropped, so when no reference to the entry's bytes is
//! left.

use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::error;

use super::inbox::RingInbox;
use super::layout::{HEADERS, IOVECS};
use super::memory::EntryMemory;
use crate::limits::OUT_HEADER;
use crate::reply::Reply;
use crate::{Errno, Unique};

/// `struct iovec`: one memory range that REGISTER gives to the kernel.
#[repr(C)]
pub struct IoVec {
    base: usize,
    length: usize,
}

/// One entry of a queue.
pub struct RingEntry {
    pub memory: EntryMemory,
    /// The ranges for REGISTER: headers and payload.
    pub vectors: [IoVec; IOVECS as usize],
    inbox: Arc<RingInbox>,
    pub queue: u16,
    number: u32,
    /// The kernel's number of the request in this entry.
    commit_id: AtomicU64,
    refs: AtomicUsize,
    /// An `EntryPayload` of the current request exists or existed.
    payload_taken: AtomicBool,
    /// The reply to write when the last reference is dropped.
    pending_reply: Mutex<Option<PendingReply>>,
    /// Highest payload length in use since the pages were released.
    pub touched: AtomicU32,
}

/// A reply that waits for the last reference, or is about to be written.
struct PendingReply {
    unique: Unique,
    reply: Reply,
    /// Length of the reply's data that already lies at the start of the payload, because the handler filled it there as scratch
    /// memory.
    in_place: usize,
}

impl RingEntry {
    pub fn new(memory: EntryMemory, inbox: Arc<RingInbox>, queue: u16, number: u32) -> RingEntry {
        let [headers, payload] = memory.addresses();
        let vector = |base: *mut u8, length| IoVec {
            base: base as usize,
            length,
        };
        RingEntry {
            vectors: [vector(headers, HEADERS), vector(payload, memory.capacity())],
            memory,
            inbox,
            queue,
            number,
            commit_id: AtomicU64::new(0),
            refs: AtomicUsize::new(0),
            payload_taken: AtomicBool::new(false),
            pending_reply: Mutex::new(None),
            touched: AtomicU32::new(0),
        }
    }

    pub fn commit_id(&self) -> u64 {
        self.commit_id.load(Ordering::Relaxed)
    }

    fn lock_pending_reply(&self) -> MutexGuard<'_, Option<PendingReply>> {
        self.pending_reply
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn note_touched(&self, bytes: usize) {
        self.touched.fetch_max(bytes as u32, Ordering::Relaxed);
    }

    /// Writes the reply. The caller has the last reference, or has just dropped it.
    fn finish(&self, mut pending_reply: PendingReply) {
        let (unique, in_place) = (pending_reply.unique, pending_reply.in_place);
        let written = pending_reply
            .reply
            .with_slices(unique, |slices| self.write(slices, in_place));
        if written.is_none() {
            error!(%unique, bytes = pending_reply.reply.body_length(), "a reply is longer than any request allows; replying EIO");
            Reply::error(Errno::EIO).with_slices(unique, |slices| self.write(slices, 0));
        }
        self.inbox.push_replied(self.number);
    }

    /// Writes the slices of a message, the first of which begins with the header, followed by the data that is in place. The
    /// caller has the last reference.
    fn write(&self, slices: &[IoSlice<'_>], in_place: usize) -> Option<usize> {
        let (head, small) = slices.first()?.split_first_chunk::<OUT_HEADER>()?;
        let rest = slices[1..].iter().map(|slice| &slice[..]);
        // SAFETY: the caller has the last reference, so this process has the entry and only this function accesses its bytes.
        // The data in place is the only slice inside the entry; `write_reply` takes its slices one after the other, and any
        // slice before the data in place is empty (`EntryRef::reply`).
        let length = unsafe {
            let in_place = self.memory.payload(in_place);
            let body = std::iter::once(small).chain(rest);
            let all = body.chain(std::iter::once(in_place));
            self.memory
                .write_reply(head, all.filter(|slice| !slice.is_empty()))
        };
        self.note_touched(length.unwrap_or(0));
        length
    }
}

/// A request that has just arrived.
pub(crate) struct IncomingRequest {
    entry_ref: EntryRef,
    /// Length of the message; None if the kernel's lengths contradict each other.
    length: Option<usize>,
    /// Most entries of its queue are in use: this request should not wait long.
    pub crowded: bool,
}

impl IncomingRequest {
    /// # Safety
    /// The kernel has completed the entry's last command, and no `IncomingRequest` was made for that completion yet.
    pub unsafe fn new(entry: &Arc<RingEntry>, crowded: bool) -> IncomingRequest {
        debug_assert_eq!(entry.refs.load(Ordering::Relaxed), 0);
        entry.refs.store(1, Ordering::Relaxed);
        entry.payload_taken.store(false, Ordering::Relaxed);
        // SAFETY: the caller guarantees it.
        let (commit_id, length) = unsafe { entry.memory.assemble_message() };
        entry.commit_id.store(commit_id, Ordering::Relaxed);
        entry.note_touched(length.unwrap_or(0));
        let entry = entry.clone();
        let entry_ref = EntryRef {
            entry,
            finished: false,
        };
        IncomingRequest {
            entry_ref,
            length,
            crowded,
        }
    }

    /// The message; empty if the kernel's lengths contradict each other.
    pub fn message(&self) -> &[u8] {
        match self.length {
            // SAFETY: this process has the entry. Nothing writes to it: this is the only reference, and it gives out no payload
            // while it is borrowed.
            Some(length) => unsafe { self.entry_ref.entry.memory.message(length) },
            None => &[],
        }
    }

    /// Number of message bytes before the payload pages.
    pub fn before_payload(&self) -> usize {
        // SAFETY: this process has the entry, and this is the only reference, so no reply has been written.
        let payload = unsafe { self.entry_ref.entry.memory.payload_bytes() };
        self.length.map_or(0, |length| length - payload)
    }

    /// The kernel's number of the request, valid even if the message is not.
    pub fn unique(&self) -> Unique {
        Unique(self.entry_ref.entry.commit_id())
    }

    pub fn into_entry(self) -> EntryRef {
        self.entry_ref
    }
}

/// A counted reference to a ring entry that this process has.
pub(crate) struct EntryRef {
    entry: Arc<RingEntry>,
    finished: bool,
}

impl EntryRef {
    /// Takes the exclusive access to the payload; None if it was taken already.
    pub fn take_payload(&self) -> Option<EntryPayload> {
        let was_taken = self.entry.payload_taken.swap(true, Ordering::AcqRel);
        (!was_taken).then(|| EntryPayload {
            entry_ref: self.clone(),
        })
    }

    pub fn capacity(&self) -> usize {
        self.entry.memory.capacity()
    }

    /// Sends the reply to the request: it is written when the last reference is dropped. This reference is dropped now.
    pub fn reply(mut self, unique: Unique, mut reply: Reply) {
        let in_place =
            reply.take_in_place(|payload| Arc::ptr_eq(&payload.entry_ref.entry, &self.entry));
        let pending_reply = PendingReply {
            unique,
            reply,
            in_place: in_place.unwrap_or(0),
        };
        // Only an existing reference can be cloned: if the count is 1, this is the only reference and stays the only one.
        if self.entry.refs.load(Ordering::Acquire) == 1 {
            self.finished = true;
            self.entry.refs.store(0, Ordering::Relaxed);
            self.entry.finish(pending_reply);
        } else {
            *self.entry.lock_pending_reply() = Some(pending_reply);
        }
    }
}

impl Clone for EntryRef {
    fn clone(&self) -> EntryRef {
        self.entry.refs.fetch_add(1, Ordering::Relaxed);
        EntryRef {
            entry: self.entry.clone(),
            finished: false,
        }
    }
}

impl Drop for EntryRef {
    fn drop(&mut self) {
        // As in an `Arc`: accesses through the other references happen before the last one continues.
        if self.finished || self.entry.refs.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        let pending_reply = self.entry.lock_pending_reply().take();
        match pending_reply {
            Some(pending_reply) => self.entry.finish(pending_reply),
            None => unreachable!("the responder has a reference until it replies"),
        }
    }
}

/// The reference with exclusive access to the payload.
pub(crate) struct EntryPayload {
    entry_ref: EntryRef,
}

impl EntryPayload {
    pub fn capacity(&self) -> usize {
        self.entry_ref.capacity()
    }

    pub fn bytes(&self, length: usize) -> &[u8] {
        // SAFETY: this process has the entry while a reference exists, and only this reference accesses the payload. Writing
        // requires a mutable borrow of it.
        unsafe { self.entry_ref.entry.memory.payload(length) }
    }

    pub fn bytes_mut(&mut self, length: usize) -> &mut [u8] {
        // SAFETY: the same.
        unsafe { self.entry_ref.entry.memory.payload_mut(length) }
    }
}
