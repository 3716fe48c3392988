//! A place that belongs to no ring: a request is put into it as the kernel does it, and the answer taken out. For tests and
//! fuzzing.

use std::io;
use std::sync::Arc;

use super::hold::{Incoming, Place};
use super::home::Home;
use super::layout::{HEADERS, PAYLOAD_BYTES};
use super::memory::Memory;
use crate::limits::OUT_HEADER;

pub(crate) struct Loose {
    place: Arc<Place>,
    home: Arc<Home>,
}

impl Loose {
    /// The place of the calling thread, with a payload of up to `payload` bytes, whole pages.
    pub fn new(payload: usize) -> io::Result<Loose> {
        let memory = Memory::map(1, payload)?.remove(0);
        let home = Arc::new(Home::new()?);
        home.enter();
        let place = Arc::new(Place::new(memory, home.clone(), 0, 0));
        Ok(Loose { place, home })
    }

    pub fn capacity(&self) -> usize {
        self.place.memory.capacity()
    }

    /// The request before it was answered.
    pub fn arrive(&self, headers: &[u8; HEADERS], payload: &[u8], crowded: bool) -> Incoming {
        assert!(payload.len() <= self.capacity());
        let [at_headers, at_payload] = self.place.memory.addresses();
        // SAFETY: as the caller says nobody has the place, so this stands for the kernel, whose turn it is: both pieces are as
        // long as is written, and after that it has completed its command.
        unsafe {
            at_headers.copy_from_nonoverlapping(headers.as_ptr(), HEADERS);
            at_payload.copy_from_nonoverlapping(payload.as_ptr(), payload.len());
            Incoming::new(&self.place, crowded)
        }
    }

    /// Header and body of the answer, as the kernel reads it. None if there is none.
    pub fn answer(&self) -> Option<Vec<u8>> {
        let mut answered = Vec::new();
        self.home.collect(true, &mut answered);
        assert!(answered.len() <= 1, "a place was answered twice");
        answered.pop()?;
        let [at_headers, _] = self.place.memory.addresses();
        // SAFETY: it was answered, so nobody has bytes of it.
        unsafe {
            let header = at_headers.cast::<[u8; OUT_HEADER]>().read_unaligned();
            let length = at_headers.add(PAYLOAD_BYTES).cast::<[u8; 4]>();
            let length = u32::from_ne_bytes(length.read_unaligned()) as usize;
            Some([&header, self.place.memory.payload(length)].concat())
        }
    }
}
