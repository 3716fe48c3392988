//! A target with changed bytes: it is opened or refused. Where only bytes of objects were changed, what is read is what was
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gupfs_fuzz::image(input));
