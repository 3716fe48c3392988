//! A log with changed bytes: it is opened with batches that were staged, or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gupfs_fuzz::log(input));
