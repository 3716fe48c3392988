//! A message from /dev/fuse gets exactly the expected reply, whatever it contains.
#![no_main]

use gupfs_fuse::fuzzing::ProtocolHarness;
use gupfs_fuse_fuzz::input::{Input, LONG};
use gupfs_fuse_fuzz::{EveryFieldFs, check_written};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static HARNESSES: [ProtocolHarness<EveryFieldFs>; 2] =
        [false, true].map(|long| ProtocolHarness::new(EveryFieldFs, long).unwrap());
}

fuzz_target!(|bytes: &[u8]| {
    let Some(input) = Input::new(bytes) else {
        return;
    };
    HARNESSES.with(|harnesses| {
        let harness = &harnesses[usize::from(input.is(LONG))];
        let message = input.message(harness.capacity());
        if let Some(reply) = harness.send_by_device(&message) {
            check_written(&message, &reply);
        }
    });
});
