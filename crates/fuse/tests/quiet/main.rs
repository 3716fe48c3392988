//! Memory of a mount over io_uring: alone in its process, since it looks at all of the process's mappings.

// Tests stand outside the simulated world and wait by the real clock.
#![allow(clippy::disallowed_methods)]
#![allow(dead_code)] // of what it shares with the other tests it needs a part

/// The way requests come in this run of the tests.
const TRANSPORT: gupfs_fuse::Transport = gupfs_fuse::Transport::IoUring;

/// Who takes them: not an event loop of the test's.
const LOOPED: bool = false;

#[path = "../../examples/memfs/fs/mod.rs"]
mod memfs;
#[path = "../mounted/odd.rs"]
mod odd;
#[path = "../mounted/rig.rs"]
mod rig;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::thread;

use odd::Odd;
use rig::{Rig, config, until};

/// KiB of the places of all queues, 64 of 1 MiB and a page for each queue: the large mappings. What the allocator keeps for threads
/// that came and went is not the door's.
fn resident() -> usize {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut large = false;
    let mut sum = 0;
    for line in smaps.lines() {
        let (first, rest) = line.split_once(' ').unwrap();
        if let Some((from, to)) = first.split_once('-') {
            let [from, to] = [from, to].map(|at| u64::from_str_radix(at, 16).unwrap());
            large = to - from >= 48 << 20 && rest.starts_with("rw-p");
        } else if first == "Rss:" && large {
            sum += rest
                .trim()
                .trim_end_matches(" kB")
                .parse::<usize>()
                .unwrap();
        }
    }
    sum
}

#[test]
fn memory_that_was_used_much_is_given_back_when_it_is_quiet() {
    let Some(rig) = Rig::new(Odd::new(), config()) else {
        return;
    };
    let file = OpenOptions::new().write(true).open(rig.path("plain"));
    let (file, bytes) = (file.unwrap(), vec![1; 1 << 20]);
    let before = resident();
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| (0..20).for_each(|_| file.write_all_at(&bytes, 0).unwrap()));
        }
    });
    assert!(resident() > before + 900, "little was used");
    until("it is given back", || resident() < before + 500);
    // Short payloads, in as many places at a time.
    let slow = OpenOptions::new().write(true).open(rig.path("slow"));
    let slow = slow.unwrap();
    let before = resident();
    thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| slow.write_all_at(&bytes[..60 << 10], 0).unwrap());
        }
    });
    assert!(resident() > before + 1_000, "little was used");
    until("it is given back", || resident() < before + 500);
    file.write_all_at(&bytes, 0).unwrap();
}
