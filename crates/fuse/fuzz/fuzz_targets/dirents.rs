//! Names into the answer to READDIR: what was taken is read back, and what was refused had no room. The input is the room and
//! names, each with its length before it.
#![no_main]

use std::time::Duration;

use gupfs_fuse::{Dirents, DirentsPlus, Entry, Handle, fuzzing, op};
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

/// Number, offset, kind and name of what lies at the beginning.
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

fn check(room: usize, before: usize, names: &[&[u8]], taken: &[bool], bytes: &[u8]) {
    assert!(bytes.len() <= room);
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
            assert!(at + length > room, "there was room");
        }
    }
    assert_eq!(at, bytes.len());
}

fuzz_target!(|bytes: &[u8]| {
    let Some((room, rest)) = bytes.split_first_chunk() else {
        return;
    };
    let (size, names) = (u32::from_ne_bytes(*room), names(rest));
    let request = op::Readdir {
        fh: Handle(0),
        offset: 0,
        size,
    };
    let (mut plain, mut plus) = (Dirents::new(&request), DirentsPlus::new(&request));
    let (mut in_plain, mut in_plus) = (Vec::new(), Vec::new());
    for (index, name) in names.iter().enumerate() {
        let (ino, mode) = (index as u64, 0o100644);
        let mut entry = Entry::absent(Duration::ZERO);
        (entry.attr.ino, entry.attr.mode) = (ino, mode);
        in_plain.push(plain.push(ino, ino + 1, mode, name));
        in_plus.push(plus.push(&entry, ino + 1, name));
    }
    let room = size as usize;
    check(room, 0, &names, &in_plain, &fuzzing::names(plain));
    check(
        room,
        ENTRY,
        &names,
        &in_plus,
        &fuzzing::names_and_attributes(plus),
    );
});
