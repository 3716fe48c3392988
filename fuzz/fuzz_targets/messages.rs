//! A message: what is read is what would be written, and nothing else is read.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gupfs_fuzz::message(input));
