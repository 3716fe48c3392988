//! # fuzz: random bytes for all code of crate fuse that parses untrusted input
//!
//! Owns   a file system that uses every field of a request, and the seed inputs.
//! Never  mounts: `gupfs_fuse::fuzzing` takes the role of the kernel.
//! Enter  at `fuzz_targets/`, one program per target; `scripts/fuzz.sh` runs them.

mod every_field;
pub mod input;

pub use every_field::EveryFieldFs;

/// Checks that the bytes of a WRITE reached the file system unchanged.
pub fn check_written(message: &[u8], reply: &[u8]) {
    use gupfs_fuse::wire::{Cursor, Opcode, RequestHeader};
    let is_write = |header: RequestHeader| header.opcode == Opcode::Write as u32;
    let failed = reply[4..8] != [0; 4];
    if failed || !RequestHeader::from_wire(message).is_ok_and(is_write) {
        return;
    }
    let head = gupfs_fuse::fuzzing::BEFORE_PAYLOAD;
    let mut fixed = Cursor::new(&message[56..]);
    let size = fixed.u32("size").expect("an accepted WRITE has a size field");
    let sum = every_field::sum(&message[head..][..size as usize]);
    assert_eq!(reply[16..20], sum.to_ne_bytes(), "the file system received other bytes");
}
