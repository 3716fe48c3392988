//! A message from /dev/fuse: it is answered as is due, once, whatever is in it.
#![no_main]

use gupfs_fuse::fuzzing::Door;
use gupfs_door_fuzz::input::{Input, LONG};
use gupfs_door_fuzz::{Everything, check_written};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static DOORS: [Door<Everything>; 2] =
        [false, true].map(|long| Door::new(Everything, long).unwrap());
}

fuzz_target!(|bytes: &[u8]| {
    let Some(input) = Input::new(bytes) else {
        return;
    };
    DOORS.with(|doors| {
        let door = &doors[usize::from(input.is(LONG))];
        let message = input.message(door.capacity());
        if let Some(answer) = door.by_device(&message) {
            check_written(&message, &answer);
        }
    });
});
