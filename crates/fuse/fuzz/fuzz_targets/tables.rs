//! The kernel's mount table, with paths that users choose, and its list of CPUs.
#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gupfs_fuse::fuzzing;
use libfuzzer_sys::fuzz_target;

/// Escapes a path like the kernel.
fn escaped(path: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        other => vec![*other],
    };
    path.iter().flat_map(escape).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.split(|byte| *byte == b'\n').count();
    assert!(fuzzing::mounted_at(bytes).len() <= lines);
    let before = b"36 35 0:52 / ";
    let after = b" rw,nosuid shared:7 - fuse.gupfs source rw\n";
    let table = [&before[..], &escaped(bytes), after].concat();
    assert_eq!(
        fuzzing::mounted_at(&table),
        [Path::new(OsStr::from_bytes(bytes))]
    );
    if let Ok(list) = std::str::from_utf8(bytes) {
        fuzzing::cpus(list);
    }
});
