//! Memory with the alignment of O_DIRECT.

use std::ops::{Deref, DerefMut};

/// Start of every buffer: a multiple of any sector and of a page.
pub const ALIGNMENT: usize = 4096;

/// Bytes that start at a multiple of [`ALIGNMENT`]. More than needed is allocated and the rest left unused, which needs no
/// unsafe code.
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    pub fn zeroed(len: usize) -> Buffer {
        let mut memory = vec![0; len + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        // Touched here, so that no first access to a page falls into a measurement.
        memory.fill(1);
        memory.fill(0);
        Buffer { memory, start, len }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

#[test]
fn a_buffer_starts_at_a_multiple_of_the_alignment() {
    for len in [1, 512, 100_000] {
        let buffer = Buffer::zeroed(len);
        assert_eq!(buffer.len(), len);
        assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
    }
}
