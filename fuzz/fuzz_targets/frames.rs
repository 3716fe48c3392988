//! Bytes over a connection whose handshake is over: they end it at most, and others are served.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gupfs_fuzz::frames(input));
