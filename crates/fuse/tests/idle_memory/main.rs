//! Memory of a mount over io_uring; alone in its process, since it measures all mappings of the process.

// Tests run on the real clock, not on the simulated platform.
#![allow(clippy::disallowed_methods)]
#![allow(dead_code)] // it uses only a part of the modules shared with the other tests

/// The transport of this run of the tests.
const TRANSPORT: gupfs_fuse::FuseTransport = gupfs_fuse::FuseTransport::IoUring;

/// Worker threads read the requests, not an event loop of the test.
const EVENT_LOOP: bool = false;

#[path = "../mounted/faulty_fs.rs"]
mod faulty_fs;
#[path = "../../examples/memfs/fs/mod.rs"]
mod memfs;
#[path = "../mounted/test_mount.rs"]
mod test_mount;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::thread;

use faulty_fs::FaultyFs;
use test_mount::{TestMount, config, until};

/// Resident KiB of the ring entries of all queues, 64 of 1 MiB and a page per queue: the large mappings. Memory that the
/// allocator keeps for ended threads is not counted.
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
fn memory_is_released_after_an_idle_period() {
    let Some(mount) = TestMount::new(FaultyFs::new(), config()) else {
        return;
    };
    let file = OpenOptions::new().write(true).open(mount.path("plain"));
    let (file, bytes) = (file.unwrap(), vec![1; 1 << 20]);
    let before = resident();
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| (0..20).for_each(|_| file.write_all_at(&bytes, 0).unwrap()));
        }
    });
    assert!(resident() > before + 900, "too little memory was used");
    until("the memory is released", || resident() < before + 500);
    // Short payloads, in as many entries at the same time.
    let slow = OpenOptions::new().write(true).open(mount.path("slow"));
    let slow = slow.unwrap();
    let before = resident();
    thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| slow.write_all_at(&bytes[..60 << 10], 0).unwrap());
        }
    });
    assert!(resident() > before + 1_000, "too little memory was used");
    until("the memory is released", || resident() < before + 500);
    file.write_all_at(&bytes, 0).unwrap();
}
