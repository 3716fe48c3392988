//! A ring entry, and the references to its memory while this process has it.
//!
//! A new request is an `IncomingRequest`, whose message can be read. It becomes an `EntryRef`, of which there may be clones;
//! the entry stays with this process while one of them exists. One of them may become the `EntryPayload`, which alone accesses
//! the payload bytes. The reply is written when the last reference is dropped, so when no reference to the entry's bytes is
//! left.

use std::io::IoSlice;
use std::iter;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tracing::error;

use super::inbox::RingInbox;
use super::layout::{HEADERS, IOVECS};
use super::memory::{EntryMemory, MessageLengths};
use crate::limits::OUT_HEADER;
use crate::wire::ReplyHeader;
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
    pending_reply: Mutex<Option<PendingReply>>,
    /// Highest payload length in use since the pages were released.
    pub touched: AtomicU32,
}

/// A reply that is written when the last reference is dropped.
struct PendingReply {
    unique: Unique,
    /// The slices of the message; the first begins with its header.
    slices: Vec<Bytes>,
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

    /// Writes the reply and returns the entry to its ring. The caller has the last reference, or has just dropped it.
    fn finish<'a>(
        &self,
        unique: Unique,
        slices: impl Iterator<Item = &'a [u8]> + Clone,
        in_place: usize,
    ) {
        if self.write(slices.clone(), in_place).is_none() {
            let bytes = slices.map(<[u8]>::len).sum::<usize>() - OUT_HEADER;
            error!(%unique, bytes, "a reply is longer than any request allows; replying EIO");
            let header = ReplyHeader::error(unique, Errno::EIO).to_bytes();
            self.write(iter::once(&header[..]), 0);
        }
        self.inbox.push_replied(self.number);
    }

    /// Writes the slices of a message, the first of which begins with the header, or the header and the data that is in place.
    /// The caller has the last reference.
    fn write<'a>(
        &self,
        mut slices: impl Iterator<Item = &'a [u8]>,
        in_place: usize,
    ) -> Option<usize> {
        let (head, small) = slices.next()?.split_first_chunk::<OUT_HEADER>()?;
        let body = iter::once(small)
            .chain(slices)
            .filter(|slice| !slice.is_empty());
        // SAFETY: the caller has the last reference, so this process has the entry and only this function accesses its bytes. No
        // slice lies in the entry except the data in place, which is the only one then.
        let length = unsafe {
            match in_place {
                0 => self.memory.write_reply(head, body),
                _ => {
                    debug_assert!(small.is_empty(), "the data in place would be overwritten");
                    let in_place = self.memory.payload(in_place);
                    self.memory.write_reply(head, iter::once(in_place))
                }
            }
        };
        self.note_touched(length.unwrap_or(0));
        length
    }
}

/// A request that has just arrived.
pub(crate) struct IncomingRequest {
    entry_ref: EntryRef,
    /// None if the kernel's lengths contradict each other.
    lengths: Option<MessageLengths>,
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
        let (commit_id, lengths) = unsafe { entry.memory.assemble_message() };
        entry.commit_id.store(commit_id, Ordering::Relaxed);
        entry.note_touched(lengths.map_or(0, MessageLengths::total));
        let entry = entry.clone();
        let entry_ref = EntryRef {
            entry,
            finished: false,
        };
        IncomingRequest {
            entry_ref,
            lengths,
            crowded,
        }
    }

    /// The message; empty if the kernel's lengths contradict each other.
    pub fn message(&self) -> &[u8] {
        match self.lengths {
            // SAFETY: this process has the entry. Nothing writes to it: this is the only reference, and it gives out no payload
            // while it is borrowed.
            Some(lengths) => unsafe { self.entry_ref.entry.memory.message(lengths) },
            None => &[],
        }
    }

    /// Number of message bytes before the payload pages.
    pub fn before_payload(&self) -> usize {
        self.lengths.map_or(0, |lengths| lengths.before_payload)
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

    /// Whether no other reference exists. Only an existing reference can be cloned, so this one stays the only one.
    pub fn is_last(&self) -> bool {
        self.entry.refs.load(Ordering::Acquire) == 1
    }

    /// Writes the reply. With data in place the message is only a header.
    ///
    /// # Panics
    /// If another reference exists.
    pub fn reply_now(mut self, unique: Unique, slices: &[IoSlice<'_>], in_place: usize) {
        assert!(
            self.is_last(),
            "a reply is written to memory that is in use"
        );
        self.finished = true;
        self.entry.refs.store(0, Ordering::Relaxed);
        let slices = slices.iter().map(|slice| &slice[..]);
        self.entry.finish(unique, slices, in_place);
    }

    /// Stores the reply until the last reference is dropped, which writes it. This reference is dropped now. With data in place
    /// the message is only a header.
    pub fn reply_when_last(self, unique: Unique, slices: Vec<Bytes>, in_place: usize) {
        *self.entry.lock_pending_reply() = Some(PendingReply {
            unique,
            slices,
            in_place,
        });
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
            Some(PendingReply {
                unique,
                slices,
                in_place,
            }) => {
                let slices = slices.iter().map(|slice| &slice[..]);
                self.entry.finish(unique, slices, in_place);
            }
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

    /// Whether it is the payload of this entry.
    pub fn is_of(&self, entry: &EntryRef) -> bool {
        Arc::ptr_eq(&self.entry_ref.entry, &entry.entry)
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
