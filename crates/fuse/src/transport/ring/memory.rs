//! The memory of places: mapped at once for some, untouched until the kernel uses it.
//!
//! Owns   the mappings, and all reads and writes of memory that the kernel writes too.
//! Never  decides whose turn it is: `hold` and `queue` do, and each `unsafe` here says what they must keep.

use std::io;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::param::page_size;

use super::layout::{COMMIT_ID, OP_HEADER, OP_HEADER_MAX, PAYLOAD, PAYLOAD_BYTES};
use crate::limits::{IN_HEADER, OUT_HEADER};

/// Some places' memory, mapped together.
struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: it is memory; who may touch which part when is said where it is touched.
unsafe impl Send for Mapping {}
// SAFETY: the same.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `Memory::map`; the last `Memory` of it is gone, and with it everybody who
        // knew an address in it. The kernel does not: a place's memory is kept until its ring is closed.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok());
    }
}

/// The memory of one place.
pub struct Memory {
    mapping: Arc<Mapping>,
    offset: usize,
    payload: usize,
}

impl Memory {
    /// Memory for `count` places with payloads of up to `payload` bytes, whole pages.
    pub fn map(count: usize, payload: usize) -> io::Result<Vec<Memory>> {
        let stride = PAYLOAD + payload;
        let length = count * stride;
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing that is there.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        // One touched page shall be one page. Not every kernel has the large ones that this declines.
        // SAFETY: it changes how the new mapping is filled, not what is in it.
        let _ = unsafe { madvise(base, length, Advice::LinuxNoHugepage) };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Arc::new(Mapping { base, length });
        let memory = |index| Memory {
            mapping: mapping.clone(),
            offset: index * stride,
            payload,
        };
        Ok((0..count).map(memory).collect())
    }

    pub fn capacity(&self) -> usize {
        self.payload
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= PAYLOAD + self.payload);
        // SAFETY: `offset` lies in this place, which lies in the mapping.
        unsafe { self.mapping.base.as_ptr().add(self.offset + offset) }
    }

    /// Addresses of headers and payload, for REGISTER.
    pub fn addresses(&self) -> [*mut u8; 2] {
        [self.at(0), self.at(PAYLOAD)]
    }

    /// # Safety
    /// The place is ours, and nobody has bytes of its first page.
    unsafe fn number<const N: usize>(&self, offset: usize) -> [u8; N] {
        // SAFETY: the caller's promise; `offset + N` lies in the headers.
        unsafe { self.at(offset).cast::<[u8; N]>().read_unaligned() }
    }

    /// Puts header, fixed part and payload of the request next to each other; returns the message's commit id and its
    /// length. None if the kernel's lengths contradict each other.
    ///
    /// # Safety
    /// The place came to us just now: nobody has bytes of it.
    pub unsafe fn put_together(&self) -> (u64, Option<usize>) {
        // SAFETY: the caller's promise, here and below.
        let (commit_id, length, payload) = unsafe {
            (
                u64::from_ne_bytes(self.number(COMMIT_ID)),
                u32::from_ne_bytes(self.number(0)) as usize,
                self.payload_bytes(),
            )
        };
        let fixed = length.checked_sub(IN_HEADER + payload);
        let Some(fixed) = fixed.filter(|fixed| *fixed <= OP_HEADER_MAX && payload <= self.payload)
        else {
            return (commit_id, None);
        };
        // SAFETY: both pieces lie before the headers' end and go behind it, before the payload: no overlap.
        unsafe {
            let start = self.at(PAYLOAD - IN_HEADER - fixed);
            start.copy_from_nonoverlapping(self.at(0), IN_HEADER);
            let rest = start.add(IN_HEADER);
            rest.copy_from_nonoverlapping(self.at(OP_HEADER), fixed);
        }
        (commit_id, Some(length))
    }

    /// How much of the message lies in the payload's pages.
    ///
    /// # Safety
    /// The place is ours, and its answer is not written yet.
    pub unsafe fn payload_bytes(&self) -> usize {
        // SAFETY: the caller's promise.
        let bytes = unsafe { self.number(PAYLOAD_BYTES) };
        u32::from_ne_bytes(bytes) as usize
    }

    /// The message that was put together: `length` bytes of which the last `payload` lie in the payload's pages.
    ///
    /// # Safety
    /// The place is ours, `put_together` gave `length`, and while the slice lives nobody writes into it.
    pub unsafe fn message(&self, length: usize) -> &[u8] {
        // SAFETY: the caller's promise; `put_together` checked the lengths, and the message is one piece.
        unsafe {
            let payload = self.payload_bytes();
            slice::from_raw_parts(self.at(PAYLOAD - (length - payload)), length)
        }
    }

    /// The first bytes of the payload.
    ///
    /// # Safety
    /// The place is ours, and while the slice lives nobody writes into it.
    pub unsafe fn payload(&self, length: usize) -> &[u8] {
        assert!(length <= self.payload, "a payload lies in its place");
        // SAFETY: the caller's promise, and the bound above. The pages are zeros until somebody writes them.
        unsafe { slice::from_raw_parts(self.at(PAYLOAD), length) }
    }

    /// # Safety
    /// The place is ours, and while the slice lives nobody else has bytes of the payload.
    #[allow(clippy::mut_from_ref)] // who may have it is what `Hold` counts
    pub unsafe fn payload_mut(&self, length: usize) -> &mut [u8] {
        assert!(length <= self.payload, "scratch lies in its place");
        // SAFETY: the caller's promise, and the bound above.
        unsafe { slice::from_raw_parts_mut(self.at(PAYLOAD), length) }
    }

    /// Writes an answer: its header, with the length that it has here, then the pieces of its body one after the other. A
    /// piece that lies where it belongs stays. Returns the body's length; None if it is too long.
    ///
    /// # Safety
    /// The place is ours and nobody else has bytes of it, but for `pieces`: of them one may lie at the payload's beginning.
    pub unsafe fn write_answer<'a>(
        &self,
        header: &[u8; OUT_HEADER],
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Option<usize> {
        let mut length = 0;
        for piece in pieces {
            if piece.len() > self.payload - length {
                return None;
            }
            let to = self.at(PAYLOAD + length);
            if !std::ptr::eq(piece.as_ptr(), to) {
                // SAFETY: the caller's promise and the bound above; `copy` permits that both overlap.
                unsafe { std::ptr::copy(piece.as_ptr(), to, piece.len()) };
            }
            length += piece.len();
        }
        let mut header = *header;
        // Whoever made it does not count what was in place.
        header[..4].copy_from_slice(&((OUT_HEADER + length) as u32).to_ne_bytes());
        // SAFETY: the caller's promise; both places lie in the headers.
        unsafe {
            self.at(0)
                .copy_from_nonoverlapping(header.as_ptr(), OUT_HEADER);
            let bytes = self.at(PAYLOAD_BYTES).cast::<[u8; 4]>();
            bytes.write_unaligned((length as u32).to_ne_bytes());
        }
        Some(length)
    }

    /// Gives the payload's pages back but for the first few; they are zeros when they are used again.
    ///
    /// # Safety
    /// Nobody has bytes of the payload. The kernel may have the place: it writes into it only while this thread asks it for
    /// completions.
    pub unsafe fn release_pages(&self, keep: usize) {
        // Whole pages of the kernel, counted from the place: it need not begin with one, and what is behind it is another's.
        let page = page_size();
        let first = self.at(PAYLOAD + keep);
        let from = PAYLOAD + keep + first.align_offset(page);
        let to = PAYLOAD + self.payload - self.at(PAYLOAD + self.payload).addr() % page;
        if from >= to {
            return;
        }
        // SAFETY: the caller's promise: the bytes that vanish are nobody's.
        let released = unsafe { madvise(self.at(from).cast(), to - from, Advice::LinuxDontNeed) };
        debug_assert!(released.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ALIGN;

    /// As the kernel does it.
    fn arrive(memory: &Memory, said: u32, fixed: &[u8], payload: &[u8], commit_id: u64) {
        let mut headers = [0u8; 288];
        headers[..4].copy_from_slice(&said.to_ne_bytes());
        headers[4..IN_HEADER].fill(0xaa);
        headers[OP_HEADER..OP_HEADER + fixed.len()].copy_from_slice(fixed);
        headers[COMMIT_ID..COMMIT_ID + 8].copy_from_slice(&commit_id.to_ne_bytes());
        headers[PAYLOAD_BYTES..PAYLOAD_BYTES + 4]
            .copy_from_slice(&(payload.len() as u32).to_ne_bytes());
        // SAFETY: the memory is the test's alone.
        unsafe {
            memory
                .at(0)
                .copy_from_nonoverlapping(headers.as_ptr(), headers.len());
            memory.payload_mut(payload.len()).copy_from_slice(payload);
        }
    }

    fn one() -> Memory {
        Memory::map(3, 2 * ALIGN).unwrap().remove(1)
    }

    #[test]
    fn header_fixed_part_and_payload_become_one_message() {
        for (fixed, payload) in [(0, 0), (0, 5), (40, ALIGN), (128, 2 * ALIGN), (88, 0)] {
            let memory = one();
            let said = IN_HEADER + fixed + payload;
            arrive(
                &memory,
                said as u32,
                &vec![0xbb; fixed],
                &vec![0xcc; payload],
                77,
            );
            // SAFETY: the memory is the test's alone, here and below.
            assert_eq!(unsafe { memory.put_together() }, (77, Some(said)));
            let message = unsafe { memory.message(said) };
            assert_eq!(message.len(), said);
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
    fn lengths_that_contradict_each_other_are_no_message() {
        for said in [0, 39, 44, IN_HEADER as u32 + 5 + 129, u32::MAX] {
            let memory = one();
            arrive(&memory, said, &[], &[1; 5], 9);
            // SAFETY: the memory is the test's alone.
            assert_eq!(unsafe { memory.put_together() }, (9, None), "{said}");
        }
    }

    #[test]
    fn an_answer_lies_in_the_payload_and_what_is_in_place_stays() {
        let memory = one();
        // SAFETY: the memory is the test's alone, here and below.
        unsafe { memory.payload_mut(6) }.copy_from_slice(b"abcdef");
        let header = [9; OUT_HEADER];
        let in_place = unsafe { memory.payload(4) };
        let written = unsafe { memory.write_answer(&header, [in_place].into_iter()) };
        assert_eq!(written, Some(4));
        assert_eq!(unsafe { memory.payload(6) }, b"abcdef");
        let said = (OUT_HEADER as u32 + 4).to_ne_bytes();
        assert_eq!(unsafe { memory.number::<4>(0) }, said);
        let pieces = [&b"12"[..], b"345"];
        assert_eq!(
            unsafe { memory.write_answer(&header, pieces.into_iter()) },
            Some(5)
        );
        assert_eq!(unsafe { memory.payload(6) }, b"12345f");
        assert_eq!(
            unsafe { memory.number::<4>(PAYLOAD_BYTES) },
            5u32.to_ne_bytes()
        );
        let long = vec![0; 2 * ALIGN];
        let pieces = [&long[..], b"1"];
        assert_eq!(
            unsafe { memory.write_answer(&header, pieces.into_iter()) },
            None
        );
    }
}
