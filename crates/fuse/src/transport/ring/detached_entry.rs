//! An entry without a ring: a test puts a request into it like the kernel, and takes the reply out. For tests and fuzzing.

use std::io;
use std::sync::Arc;

use super::entry::{IncomingRequest, RingEntry};
use super::inbox::RingInbox;
use super::layout::{HEADERS, PAYLOAD_BYTES};
use super::memory::EntryMemory;
use crate::limits::OUT_HEADER;

pub(crate) struct DetachedEntry {
    entry: Arc<RingEntry>,
    inbox: Arc<RingInbox>,
}

impl DetachedEntry {
    /// Creates an entry of the calling thread, with a payload of up to `payload` bytes, in whole pages.
    pub fn new(payload: usize) -> io::Result<DetachedEntry> {
        let memory = EntryMemory::map(1, payload)?.remove(0);
        let inbox = Arc::new(RingInbox::new()?);
        inbox.bind_to_this_thread();
        let entry = Arc::new(RingEntry::new(memory, inbox.clone(), 0, 0));
        Ok(DetachedEntry { entry, inbox })
    }

    pub fn capacity(&self) -> usize {
        self.entry.memory.capacity()
    }

    /// Puts a request into the entry. The previous request must have been replied to.
    pub fn arrive(
        &self,
        headers: &[u8; HEADERS],
        payload: &[u8],
        crowded: bool,
    ) -> IncomingRequest {
        assert!(payload.len() <= self.capacity());
        let [at_headers, at_payload] = self.entry.memory.addresses();
        // SAFETY: the caller guarantees that no reference to the entry exists, so this code stands in for the kernel: both
        // ranges are at least as long as what is written, and the kernel's command counts as completed after it.
        unsafe {
            at_headers.copy_from_nonoverlapping(headers.as_ptr(), HEADERS);
            at_payload.copy_from_nonoverlapping(payload.as_ptr(), payload.len());
            IncomingRequest::new(&self.entry, crowded)
        }
    }

    /// Header and body of the reply as the kernel reads it; None if there is no reply.
    pub fn take_reply(&self) -> Option<Vec<u8>> {
        let mut replied = Vec::new();
        self.inbox.collect(true, &mut replied);
        assert!(replied.len() <= 1, "a ring entry was replied to twice");
        replied.pop()?;
        let [at_headers, _] = self.entry.memory.addresses();
        // SAFETY: the reply was written, so no reference to the entry's bytes exists.
        unsafe {
            let header = at_headers.cast::<[u8; OUT_HEADER]>().read_unaligned();
            let length = at_headers.add(PAYLOAD_BYTES).cast::<[u8; 4]>();
            let length = u32::from_ne_bytes(length.read_unaligned()) as usize;
            Some([&header, self.entry.memory.payload(length)].concat())
        }
    }
}
