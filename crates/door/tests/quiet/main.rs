//! Memory of a mount over io_uring: alone in its process, since it looks at all of the process's memory.

// Tests stand outside the simulated world and wait by the real clock.
#![allow(clippy::disallowed_methods)]
#![allow(dead_code)] // of what it shares with the other tests it needs a part

/// The way requests come in this run of the tests.
const TRANSPORT: gupfs_door::Transport = gupfs_door::Transport::IoUring;

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

#[test]
fn memory_that_was_used_much_is_given_back_when_it_is_quiet() {
    let Some(rig) = Rig::new(Odd::new(), config()) else {
        return;
    };
    let resident = || -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        kib.unwrap()
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
