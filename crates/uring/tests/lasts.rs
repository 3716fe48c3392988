//! What is read while a read lasts. A program of its own: it counts for the whole process.

// Tests stand outside the simulated world and wait by the real clock.
#![allow(clippy::disallowed_methods)]

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use gupfs_uring::{File, Here, Waiters, may_wait_here, read, serve};

fn is_taken(file: &File) -> bool {
    read(file, BytesMut::new(), 1, 0).is_ok()
}

#[tokio::test]
async fn while_a_read_lasts_nobody_waits_for_a_disk_where_others_need_him() {
    let (never, mut writes) = io::pipe().unwrap();
    let never: File = Arc::new(never);
    let file: File = Arc::new(tempfile::tempfile().unwrap());
    Waiters::new(1).join();
    assert!(may_wait_here().is_some());

    let serving = tokio::spawn(serve());
    tokio::task::yield_now().await;
    assert!(!serving.is_finished(), "no ring");
    let lasts = read(&never, BytesMut::new(), 5, 0).ok().unwrap();
    assert!(
        may_wait_here().is_none(),
        "its end would come when it has waited"
    );
    let may_another = || {
        let another = std::thread::spawn(|| {
            Waiters::new(1).join();
            may_wait_here().is_some()
        });
        another.join().unwrap()
    };
    assert!(is_taken(&file) && may_another());
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert!(is_taken(&file) && may_another(), "it may be a slow disk");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert!(!is_taken(&file) && !may_another());
    let own = std::thread::spawn(move || {
        let _here = Here::begin();
        is_taken(&file)
    });
    assert!(!own.join().unwrap());

    writes.write_all(b"late").unwrap();
    assert_eq!(&lasts.await.unwrap()[..], b"late");
    assert!(is_taken(&never) && may_another());
    serving.abort();
}
