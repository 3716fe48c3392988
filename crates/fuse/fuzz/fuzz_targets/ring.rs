//! A request in a ring entry: the entry returns with the expected reply, whatever it contains. The byte after the twist is the
//! length of the fixed part, followed by a false payload length if the twist selects one.
#![no_main]

use gupfs_fuse::fuzzing::{ProtocolHarness, set_payload_length, split_for_ring};
use gupfs_fuse_fuzz::input::{CROWDED, Input, LONG, PAYLOAD_LIES};
use gupfs_fuse_fuzz::{EveryFieldFs, check_written};
use libfuzzer_sys::fuzz_target;

const HEADER: usize = 40;

thread_local! {
    static HARNESSES: [ProtocolHarness<EveryFieldFs>; 2] =
        [false, true].map(|long| ProtocolHarness::new(EveryFieldFs, long).unwrap());
}

fn run(bytes: &[u8]) -> Option<()> {
    let mut input = Input::new(bytes)?;
    let [fixed] = input.take()?;
    let lie = match input.is(PAYLOAD_LIES) {
        true => Some(u32::from_ne_bytes(input.take()?)),
        false => None,
    };
    HARNESSES.with(|harnesses| {
        let harness = &harnesses[usize::from(input.is(LONG))];
        let mut message = input.message(harness.capacity());
        message.resize(message.len().max(HEADER), 0);
        let (mut headers, payload) = split_for_ring(&message, usize::from(fixed));
        if let Some(bytes) = lie {
            set_payload_length(&mut headers, bytes);
        }
        let (came, reply) = harness.send_by_ring(&headers, &payload, input.is(CROWDED));
        check_written(&came, &reply);
    });
    Some(())
}

fuzz_target!(|bytes: &[u8]| {
    run(bytes);
});
