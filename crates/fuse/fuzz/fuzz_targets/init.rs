//! The first message of a mount.
#![no_main]

use gupfs_fuse_fuzz::input::Input;
use libfuzzer_sys::fuzz_target;

/// Longer than the buffer for INIT.
const BYTES_MAX: usize = 10_000;

fuzz_target!(|bytes: &[u8]| {
    if let Some(input) = Input::new(bytes) {
        gupfs_fuse::fuzzing::reply_to_init(&input.message(BYTES_MAX));
    }
});
