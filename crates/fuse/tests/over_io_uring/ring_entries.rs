//! The entries of a ring's queues, and how long requests occupy them.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::thread;

use gupfs_fuse::limits::RING_ENTRIES_MAX;
use rustix::fs::FlockOperation;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::faulty_fs::FaultyFs;
use crate::test_mount::{TestMount, config, memory, until};

/// Pins the calling thread to CPU 0, so that all its requests go to one queue.
pub fn pin_to_first_cpu() {
    let mut cpus = CpuSet::new();
    cpus.set(0);
    sched_setaffinity(None, &cpus).unwrap();
}

#[test]
fn a_reply_waits_until_the_payload_is_dropped() {
    let Some(mount) = TestMount::new(FaultyFs::new(), config()) else {
        return;
    };
    let file = OpenOptions::new()
        .write(true)
        .open(mount.path("passes on what is written"))
        .unwrap();
    for _ in 0..5 {
        assert_eq!(file.write_at(&[7; 1 << 20], 0).unwrap(), 1 << 20);
        assert_eq!(mount.fs.payloads_passed_on.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn requests_are_served_however_many_others_wait_for_a_lock() {
    let Some(mount) = memory() else { return };
    let path = mount.path("file");
    let file = File::create(&path).unwrap();
    rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
    let refused = thread::scope(|scope| {
        let waiters: Vec<_> = (0..RING_ENTRIES_MAX + 50)
            .map(|_| {
                let waiter = || {
                    pin_to_first_cpu();
                    let file = File::open(&path).unwrap();
                    rustix::fs::flock(&file, FlockOperation::LockShared)
                };
                let small = thread::Builder::new().stack_size(64 << 10);
                small.spawn_scoped(scope, waiter).unwrap()
            })
            .collect();
        let unlock = scope.spawn(|| {
            pin_to_first_cpu();
            let done = |thread: &thread::ScopedJoinHandle<_>| thread.is_finished();
            until("all wait or are refused", || {
                let refused = waiters.iter().filter(|waiter| done(waiter)).count();
                mount.session.counts().waiting + refused == waiters.len()
            });
            rustix::fs::flock(&file, FlockOperation::Unlock).unwrap();
            waiters
        });
        let waiters = unlock.join().unwrap();
        let outcomes = waiters.into_iter().map(|waiter| waiter.join().unwrap());
        let refused: Vec<_> = outcomes.filter_map(Result::err).collect();
        refused
    });
    assert!(
        refused
            .iter()
            .all(|errno| *errno == rustix::io::Errno::NOLCK)
    );
    assert!(
        (1..=RING_ENTRIES_MAX).contains(&refused.len()),
        "{}",
        refused.len()
    );
}
