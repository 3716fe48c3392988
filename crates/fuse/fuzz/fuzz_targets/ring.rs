//! A request in a place of a ring: the place is given back with the answer that is due, whatever is in it. After the twist
//! comes how long the fixed part is, and what lies about the payload's length, if something does.
#![no_main]

use gupfs_fuse::fuzzing::{Door, in_place, say_payload};
use gupfs_door_fuzz::input::{CROWDED, Input, LONG, PAYLOAD_LIES};
use gupfs_door_fuzz::{Everything, check_written};
use libfuzzer_sys::fuzz_target;

const HEADER: usize = 40;

thread_local! {
    static DOORS: [Door<Everything>; 2] =
        [false, true].map(|long| Door::new(Everything, long).unwrap());
}

fn run(bytes: &[u8]) -> Option<()> {
    let mut input = Input::new(bytes)?;
    let [fixed] = input.take()?;
    let lie = match input.is(PAYLOAD_LIES) {
        true => Some(u32::from_ne_bytes(input.take()?)),
        false => None,
    };
    DOORS.with(|doors| {
        let door = &doors[usize::from(input.is(LONG))];
        let mut message = input.message(door.capacity());
        message.resize(message.len().max(HEADER), 0);
        let (mut headers, payload) = in_place(&message, usize::from(fixed));
        if let Some(bytes) = lie {
            say_payload(&mut headers, bytes);
        }
        let (came, answer) = door.by_ring(&headers, &payload, input.is(CROWDED));
        check_written(&came, &answer);
    });
    Some(())
}

fuzz_target!(|bytes: &[u8]| {
    run(bytes);
});
