//! A target's superblock: whatever it holds, it is read or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gupfs_fuzz::superblock(input));
