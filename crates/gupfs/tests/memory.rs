//! The memory of the process is bounded by the sizes of its caches and the number of inodes that the kernel knows.

mod running;

use gupfs_store::{index::limits as index, kv::limits as kv};
use running::{TestStore, can_mount, resident};
use std::fs::OpenOptions;
use std::process::{Command, Stdio};

const FILES: u64 = 50_000;

/// The program, its threads, buffers of requests, targets with nothing in them.
const FIXED: u64 = 64 << 20;

/// Of an inode that the kernel knows: its place in the ledger of lookups, with the room that a growing table takes.
const OF_AN_INODE: u64 = 160;

#[test]
fn after_listing_many_files_the_memory_is_within_its_limits() {
    if !can_mount() {
        return;
    }
    // Records in memory: blocks and memtables of the metadata index (one is filled while another is written), then the
    // caches of the store.
    let records = index::CACHE_BYTES
        + 2 * index::MEMTABLE_BYTES
        + (kv::CACHE_BYTES + kv::OVERLAY_BYTES) as u64;
    let bound = |inodes: u64| FIXED + records + inodes * OF_AN_INODE;
    assert!(
        bound(1_000_000) < 400 << 20,
        "what README and docs/performance.md promise"
    );

    let test_store = TestStore::new();
    let running = test_store.up();
    let dir = test_store.mnt().join("many");
    std::fs::create_dir(&dir).unwrap();
    for number in 0..FILES {
        let path = dir.join(format!("f{number}"));
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .unwrap();
    }
    let listed = Command::new("ls")
        .arg("-lR")
        .arg(test_store.mnt())
        .stdout(Stdio::null())
        .status();
    assert!(listed.unwrap().success());
    let needed = resident(running.child.id());
    assert!(
        needed < bound(FILES),
        "{} MiB for {FILES} files, and the bounds say {}",
        needed >> 20,
        bound(FILES) >> 20
    );
    assert_eq!(running.stop(), 0);
}
