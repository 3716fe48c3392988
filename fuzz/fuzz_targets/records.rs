//! A record of the metadata: what is decoded is what would be encoded.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gupfs_fuzz::record(input));
