//! # fuzz: bytes of chance into whatever of the door reads them
//!
//! Owns   a file system that looks at everything it is given, the inputs to begin with.
//! Never  mounts: `gupfs_fuse::fuzzing` stands where the kernel would.
//! Enter  at `fuzz_targets/`, one program each; `scripts/fuzz.sh` runs them.

mod everything;
pub mod input;

pub use everything::Everything;

/// That a WRITE's bytes reached the file system as they lie in the message.
pub fn check_written(message: &[u8], answer: &[u8]) {
    use gupfs_fuse::wire::{Cursor, Header, Opcode};
    let is_write = |header: Header| header.opcode == Opcode::Write as u32;
    let failed = answer[4..8] != [0; 4];
    if failed || !Header::from_wire(message).is_ok_and(is_write) {
        return;
    }
    let head = gupfs_fuse::fuzzing::BEFORE_PAYLOAD;
    let mut fixed = Cursor::new(&message[56..]);
    let size = fixed.u32("size").expect("an accepted WRITE has its size");
    let sum = everything::sum(&message[head..][..size as usize]);
    assert_eq!(
        answer[16..20],
        sum.to_ne_bytes(),
        "other bytes were written"
    );
}
