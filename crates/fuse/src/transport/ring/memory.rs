//! The memory of ring entries: mapped for several at once, untouched until the kernel uses it.
//!
//! Owns   the mappings, and all reads and writes of memory that the kernel writes too.
//! Never  decides whether the kernel or this process has an entry: `entry` and `queue` do, and each `unsafe` here states what
//!        they must guarantee.

use std::io;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::param::page_size;

use super::layout::{COMMIT_ID, OP_HEADER, OP_HEADER_MAX, PAYLOAD_BYTES, PAYLOAD_OFFSET};
use crate::limits::{IN_HEADER, OUT_HEADER};

/// Memory of several entries in one mapping.
struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: it is plain memory; each access states which part it may touch at which time.
unsafe impl Send for Mapping {}
// SAFETY: the same.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `EntryMemory::map`; its last `EntryMemory` is gone, and with it every address in
        // it. The kernel has none either: an entry's memory is kept until its ring is closed.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Lengths of the message in an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageLengths {
    /// Bytes before the payload pages: header and fixed part.
    pub before_payload: usize,
    /// Bytes in the payload pages.
    pub payload: usize,
}

impl MessageLengths {
    pub fn total(self) -> usize {
        self.before_payload + self.payload
    }
}

/// The memory of one ring entry.
pub struct EntryMemory {
    mapping: Arc<Mapping>,
    offset: usize,
    payload: usize,
}

impl EntryMemory {
    /// Memory for `count` entries with payloads of up to `payload` bytes, in whole pages.
    pub fn map(count: usize, payload: usize) -> io::Result<Vec<EntryMemory>> {
        let stride = PAYLOAD_OFFSET + payload;
        let length = count * stride;
        // SAFETY: a new private mapping at an address that the kernel chooses does not touch existing memory.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        // Touching one page must allocate only one page. A kernel without huge pages rejects this advice.
        // SAFETY: it changes how the new mapping is populated, not its contents.
        let _ = unsafe { madvise(base, length, Advice::LinuxNoHugepage) };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Arc::new(Mapping { base, length });
        let memory = |index| EntryMemory {
            mapping: mapping.clone(),
            offset: index * stride,
            payload,
        };
        Ok((0..count).map(memory).collect())
    }

    pub fn capacity(&self) -> usize {
        self.payload
    }

    fn address(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= PAYLOAD_OFFSET + self.payload);
        // SAFETY: `offset` lies in this entry, which lies in the mapping.
        unsafe { self.mapping.base.as_ptr().add(self.offset + offset) }
    }

    /// Addresses of headers and payload, for REGISTER.
    pub fn addresses(&self) -> [*mut u8; 2] {
        [self.address(0), self.address(PAYLOAD_OFFSET)]
    }

    /// # Safety
    /// This process has the entry, and no reference to bytes of its first page exists.
    unsafe fn read_array<const N: usize>(&self, offset: usize) -> [u8; N] {
        // SAFETY: the caller guarantees it; `offset + N` lies in the headers.
        unsafe { self.address(offset).cast::<[u8; N]>().read_unaligned() }
    }

    /// Copies header and fixed part of the request next to its payload; returns the request's commit id and the lengths of the
    /// message. The lengths are None if those of the kernel contradict each other.
    ///
    /// # Safety
    /// The kernel has just returned the entry: no reference to its bytes exists.
    pub unsafe fn assemble_message(&self) -> (u64, Option<MessageLengths>) {
        // SAFETY: the caller guarantees it, here and below.
        let (commit_id, length, payload) = unsafe {
            (
                u64::from_ne_bytes(self.read_array(COMMIT_ID)),
                u32::from_ne_bytes(self.read_array(0)) as usize,
                u32::from_ne_bytes(self.read_array(PAYLOAD_BYTES)) as usize,
            )
        };
        let fixed = length.checked_sub(IN_HEADER + payload);
        let Some(fixed) = fixed.filter(|fixed| *fixed <= OP_HEADER_MAX && payload <= self.payload)
        else {
            return (commit_id, None);
        };
        // SAFETY: both sources lie in the headers and both targets between the headers and the payload: they do not overlap.
        unsafe {
            let start = self.address(PAYLOAD_OFFSET - IN_HEADER - fixed);
            start.copy_from_nonoverlapping(self.address(0), IN_HEADER);
            let rest = start.add(IN_HEADER);
            rest.copy_from_nonoverlapping(self.address(OP_HEADER), fixed);
        }
        let before_payload = IN_HEADER + fixed;
        let lengths = MessageLengths {
            before_payload,
            payload,
        };
        (commit_id, Some(lengths))
    }

    /// The assembled message.
    ///
    /// # Safety
    /// This process has the entry, `assemble_message` returned `lengths` for it, and nothing writes to the message while the
    /// slice lives.
    pub unsafe fn message(&self, lengths: MessageLengths) -> &[u8] {
        // SAFETY: the caller guarantees it; `assemble_message` checked the lengths, and the message is contiguous.
        unsafe {
            let start = self.address(PAYLOAD_OFFSET - lengths.before_payload);
            slice::from_raw_parts(start, lengths.total())
        }
    }

    /// The first bytes of the payload.
    ///
    /// # Safety
    /// This process has the entry, and nothing writes to the payload while the slice lives.
    pub unsafe fn payload(&self, length: usize) -> &[u8] {
        assert!(
            length <= self.payload,
            "a payload must fit into its ring entry"
        );
        // SAFETY: the caller guarantees it, and the bound above. Pages that were never written are zeros.
        unsafe { slice::from_raw_parts(self.address(PAYLOAD_OFFSET), length) }
    }

    /// # Safety
    /// This process has the entry, and no other reference to bytes of the payload exists while the slice lives.
    #[allow(clippy::mut_from_ref)] // `EntryRef` guarantees that only one `EntryPayload` exists
    pub unsafe fn payload_mut(&self, length: usize) -> &mut [u8] {
        assert!(
            length <= self.payload,
            "scratch memory must fit into its ring entry"
        );
        // SAFETY: the caller guarantees it, and the bound above.
        unsafe { slice::from_raw_parts_mut(self.address(PAYLOAD_OFFSET), length) }
    }

    /// Writes a reply: its header with the actual length, then the slices of its body one after the other. A slice that already
    /// lies at its target stays. Returns the body's length; None if it is too long.
    ///
    /// # Safety
    /// This process has the entry, and no other reference to its bytes exists, except that one of `parts` may lie at the
    /// payload's start.
    pub unsafe fn write_reply<'a>(
        &self,
        header: &[u8; OUT_HEADER],
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> Option<usize> {
        let mut length = 0;
        for part in parts {
            if part.len() > self.payload - length {
                return None;
            }
            let to = self.address(PAYLOAD_OFFSET + length);
            if !std::ptr::eq(part.as_ptr(), to) {
                // SAFETY: the caller guarantees it, and the bound above; `copy` permits an overlap.
                unsafe { std::ptr::copy(part.as_ptr(), to, part.len()) };
            }
            length += part.len();
        }
        let mut header = *header;
        // The header was made without the length of the data in place.
        header[..4].copy_from_slice(&((OUT_HEADER + length) as u32).to_ne_bytes());
        // SAFETY: the caller guarantees it; both targets lie in the headers.
        unsafe {
            self.address(0)
                .copy_from_nonoverlapping(header.as_ptr(), OUT_HEADER);
            let bytes = self.address(PAYLOAD_BYTES).cast::<[u8; 4]>();
            bytes.write_unaligned((length as u32).to_ne_bytes());
        }
        Some(length)
    }

    /// Releases the payload's pages beyond the first `keep` bytes; they are zeros when they are used again.
    ///
    /// # Safety
    /// No reference to bytes of the payload exists. The kernel may have the entry: it writes to it only while this thread
    /// requests completions.
    pub unsafe fn release_pages(&self, keep: usize) {
        // Whole pages, aligned by address: the entry need not begin on a page, and the page after it belongs to another entry.
        let page = page_size();
        let first = self.address(PAYLOAD_OFFSET + keep);
        let from = PAYLOAD_OFFSET + keep + first.align_offset(page);
        let to = PAYLOAD_OFFSET + self.payload
            - self.address(PAYLOAD_OFFSET + self.payload).addr() % page;
        if from >= to {
            return;
        }
        // SAFETY: the caller guarantees that no reference to the released bytes exists.
        let released =
            unsafe { madvise(self.address(from).cast(), to - from, Advice::LinuxDontNeed) };
        debug_assert!(released.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ALIGN;

    /// Fills an entry as the kernel does.
    fn arrive(memory: &EntryMemory, stated: u32, fixed: &[u8], payload: &[u8], commit_id: u64) {
        let mut headers = [0u8; 288];
        headers[..4].copy_from_slice(&stated.to_ne_bytes());
        headers[4..IN_HEADER].fill(0xaa);
        headers[OP_HEADER..OP_HEADER + fixed.len()].copy_from_slice(fixed);
        headers[COMMIT_ID..COMMIT_ID + 8].copy_from_slice(&commit_id.to_ne_bytes());
        headers[PAYLOAD_BYTES..PAYLOAD_BYTES + 4]
            .copy_from_slice(&(payload.len() as u32).to_ne_bytes());
        // SAFETY: only this test accesses the memory.
        unsafe {
            memory
                .address(0)
                .copy_from_nonoverlapping(headers.as_ptr(), headers.len());
            memory.payload_mut(payload.len()).copy_from_slice(payload);
        }
    }

    fn one() -> EntryMemory {
        EntryMemory::map(3, 2 * ALIGN).unwrap().remove(1)
    }

    #[test]
    fn header_fixed_part_and_payload_become_one_message() {
        for (fixed, payload) in [(0, 0), (0, 5), (40, ALIGN), (128, 2 * ALIGN), (88, 0)] {
            let memory = one();
            let stated = IN_HEADER + fixed + payload;
            arrive(
                &memory,
                stated as u32,
                &vec![0xbb; fixed],
                &vec![0xcc; payload],
                77,
            );
            // SAFETY: only this test accesses the memory, here and below.
            let (commit_id, lengths) = unsafe { memory.assemble_message() };
            let lengths = lengths.unwrap();
            assert_eq!((commit_id, lengths.total()), (77, stated));
            let message = unsafe { memory.message(lengths) };
            assert_eq!(message.len(), stated);
            assert!(message[4..IN_HEADER].iter().all(|byte| *byte == 0xaa));
            assert!(
                message[IN_HEADER..][..fixed]
                    .iter()
                    .all(|byte| *byte == 0xbb)
            );
            assert!(
                message[IN_HEADER + fixed..]
                    .iter()
                    .all(|byte| *byte == 0xcc)
            );
        }
    }

    #[test]
    fn contradicting_lengths_yield_no_message() {
        for stated in [0, 39, 44, IN_HEADER as u32 + 5 + 129, u32::MAX] {
            let memory = one();
            arrive(&memory, stated, &[], &[1; 5], 9);
            // SAFETY: only this test accesses the memory.
            assert_eq!(unsafe { memory.assemble_message() }, (9, None), "{stated}");
        }
    }

    #[test]
    fn a_reply_is_written_to_the_payload_and_data_in_place_stays() {
        let memory = one();
        // SAFETY: only this test accesses the memory, here and below.
        unsafe { memory.payload_mut(6) }.copy_from_slice(b"abcdef");
        let header = [9; OUT_HEADER];
        let in_place = unsafe { memory.payload(4) };
        let written = unsafe { memory.write_reply(&header, [in_place].into_iter()) };
        assert_eq!(written, Some(4));
        assert_eq!(unsafe { memory.payload(6) }, b"abcdef");
        let stated = (OUT_HEADER as u32 + 4).to_ne_bytes();
        assert_eq!(unsafe { memory.read_array::<4>(0) }, stated);
        let parts = [&b"12"[..], b"345"];
        assert_eq!(
            unsafe { memory.write_reply(&header, parts.into_iter()) },
            Some(5)
        );
        assert_eq!(unsafe { memory.payload(6) }, b"12345f");
        assert_eq!(
            unsafe { memory.read_array::<4>(PAYLOAD_BYTES) },
            5u32.to_ne_bytes()
        );
        let long = vec![0; 2 * ALIGN];
        let parts = [&long[..], b"1"];
        assert_eq!(
            unsafe { memory.write_reply(&header, parts.into_iter()) },
            None
        );
    }
}
