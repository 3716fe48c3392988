//! Names in a READDIR reply: accepted entries are parsed back, and rejected ones did not fit. The input is the size and names,
//! each preceded by its length.
#![no_main]

use std::time::Duration;

use gupfs_fuse::{Dirents, DirentsPlus, EntryReply, FileHandle, fuzzing, op};
use libfuzzer_sys::fuzz_target;

const HEAD: usize = 24;
const ENTRY: usize = 128;

fn names(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut names = Vec::new();
    while let Some((length, tail)) = rest.split_first() {
        let (name, tail) = tail.split_at(tail.len().min(usize::from(*length)));
        names.push(name);
        rest = tail;
    }
    names
}

/// Inode number, offset, type and name of the first entry.
fn read(bytes: &[u8]) -> (u64, u64, u32, &[u8]) {
    let quad = |at: usize| u64::from_ne_bytes(bytes[at..][..8].try_into().unwrap());
    let word = |at: usize| u32::from_ne_bytes(bytes[at..][..4].try_into().unwrap());
    (
        quad(0),
        quad(8),
        word(20),
        &bytes[HEAD..][..word(16) as usize],
    )
}

fn check(size_max: usize, before: usize, names: &[&[u8]], taken: &[bool], bytes: &[u8]) {
    assert!(bytes.len() <= size_max);
    let mut at = 0;
    for (index, name) in names.iter().enumerate() {
        let length = before + (HEAD + name.len()).next_multiple_of(8);
        if taken[index] {
            let (ino, offset, kind, read) = read(&bytes[at + before..]);
            assert_eq!(
                (ino, offset, kind, read),
                (index as u64, index as u64 + 1, 8, *name)
            );
            at += length;
        } else {
            assert!(at + length > size_max, "the entry would have fit");
        }
    }
    assert_eq!(at, bytes.len());
}

fuzz_target!(|bytes: &[u8]| {
    let Some((size_max, rest)) = bytes.split_first_chunk() else {
        return;
    };
    let (size, names) = (u32::from_ne_bytes(*size_max), names(rest));
    let request = op::Readdir {
        fh: FileHandle(0),
        offset: 0,
        size,
    };
    let (mut plain, mut plus) = (Dirents::new(&request), DirentsPlus::new(&request));
    let (mut in_plain, mut in_plus) = (Vec::new(), Vec::new());
    for (index, name) in names.iter().enumerate() {
        let (ino, mode) = (index as u64, 0o100644);
        let mut entry = EntryReply::absent(Duration::ZERO);
        (entry.attr.ino, entry.attr.mode) = (ino, mode);
        in_plain.push(plain.push(ino, ino + 1, mode, name));
        in_plus.push(plus.push(&entry, ino + 1, name));
    }
    let size_max = size as usize;
    check(size_max, 0, &names, &in_plain, &fuzzing::names(plain));
    check(
        size_max,
        ENTRY,
        &names,
        &in_plus,
        &fuzzing::names_and_attributes(plus),
    );
});
