//! Reads while another read is stalled. A test program of its own: the limits apply to the whole process.

// These tests use the real clock.
#![allow(clippy::disallowed_methods)]

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use gupfs_uring::{
    BlockingThreads, ReadableFile, ThreadRing, acquire_blocking_permit, read, serve,
};

fn ring_accepts(file: &ReadableFile) -> bool {
    read(file, BytesMut::new(), 1, 0).is_ok()
}

#[tokio::test]
async fn no_serving_thread_waits_for_a_disk_while_a_read_is_stalled() {
    let begun = Instant::now();
    let (never, mut writes) = io::pipe().unwrap();
    let never: ReadableFile = Arc::new(never);
    let file: ReadableFile = Arc::new(tempfile::tempfile().unwrap());
    BlockingThreads::new(1).join();
    assert!(acquire_blocking_permit().is_some());

    let serving = tokio::spawn(serve());
    tokio::task::yield_now().await;
    assert!(!serving.is_finished(), "no ring");
    let stalled = read(&never, BytesMut::new(), 5, 0).ok().unwrap();
    assert!(
        acquire_blocking_permit().is_none(),
        "the thread would block, and the read completes on it"
    );
    let another_may_block = || {
        let another = std::thread::spawn(|| {
            BlockingThreads::new(1).join();
            acquire_blocking_permit().is_some()
        });
        another.join().unwrap()
    };
    // A read counts as stalled after one to two seconds; the test checks for less than two where the host was fast enough.
    let may_be_stalled = || begun.elapsed() >= Duration::from_secs(2);
    assert!((ring_accepts(&file) && another_may_block()) || may_be_stalled());
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert!(
        (ring_accepts(&file) && another_may_block()) || may_be_stalled(),
        "the disk may be slow"
    );
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert!(!ring_accepts(&file) && !another_may_block());
    let own = std::thread::spawn(move || {
        let _here = ThreadRing::install();
        ring_accepts(&file)
    });
    assert!(!own.join().unwrap());

    writes.write_all(b"late").unwrap();
    assert_eq!(&stalled.await.unwrap()[..], b"late");
    assert!(ring_accepts(&never) && another_may_block());
    serving.abort();
}
