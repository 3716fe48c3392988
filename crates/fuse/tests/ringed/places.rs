//! The places of a ring's queues: who has them, and for how long.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::thread;

use gupfs_fuse::limits::PLACES_MAX;
use rustix::fs::FlockOperation;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::odd::Odd;
use crate::rig::{Rig, config, memory, until};

/// All that the calling thread asks from here on goes to one queue.
pub fn stay_on_the_first_cpu() {
    let mut cpus = CpuSet::new();
    cpus.set(0);
    sched_setaffinity(None, &cpus).unwrap();
}

#[test]
fn an_answer_waits_until_the_payload_is_dropped() {
    let Some(rig) = Rig::new(Odd::new(), config()) else {
        return;
    };
    let file = OpenOptions::new()
        .write(true)
        .open(rig.path("passes on what is written"))
        .unwrap();
    for _ in 0..5 {
        assert_eq!(file.write_at(&[7; 1 << 20], 0).unwrap(), 1 << 20);
        assert_eq!(rig.fs.passed_on.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn however_many_wait_for_a_lock_the_others_are_served() {
    let Some(rig) = memory() else { return };
    let path = rig.path("file");
    let file = File::create(&path).unwrap();
    rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
    let refused = thread::scope(|scope| {
        let waiters: Vec<_> = (0..PLACES_MAX + 50)
            .map(|_| {
                let waiter = || {
                    stay_on_the_first_cpu();
                    let file = File::open(&path).unwrap();
                    rustix::fs::flock(&file, FlockOperation::LockShared)
                };
                let small = thread::Builder::new().stack_size(64 << 10);
                small.spawn_scoped(scope, waiter).unwrap()
            })
            .collect();
        let unlock = scope.spawn(|| {
            stay_on_the_first_cpu();
            let done = |thread: &thread::ScopedJoinHandle<_>| thread.is_finished();
            until("all wait or are refused", || {
                let refused = waiters.iter().filter(|waiter| done(waiter)).count();
                rig.session.counts().waiting + refused == waiters.len()
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
        (1..=PLACES_MAX).contains(&refused.len()),
        "{}",
        refused.len()
    );
}
