//! The first message of a mount.
#![no_main]

use gupfs_door_fuzz::input::Input;
use libfuzzer_sys::fuzz_target;

/// More than the door has room for.
const MOST: usize = 10_000;

fuzz_target!(|bytes: &[u8]| {
    if let Some(input) = Input::new(bytes) {
        gupfs_fuse::fuzzing::greet(&input.message(MOST));
    }
});
