//! An event loop that ends before its mount.

use std::fs;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::faulty_fs::FaultyFs;
use crate::test_mount::{config, have_fuse};

/// Without the reader no thread of the crate serves the mount, so dropping it must abort the connection.
#[test]
fn dropping_the_reader_aborts_the_mount() {
    if !have_fuse() {
        return;
    }
    let mut config = config();
    let dir = tempfile::tempdir().unwrap();
    let kept_reader = Arc::new(Mutex::new(None));
    let reader_slot = kept_reader.clone();
    config.attach_reader = Some(Arc::new(move |reader| {
        *reader_slot.lock().unwrap() = Some(reader);
    }));
    let spawner: gupfs_fuse::Spawner = Arc::new(drop);
    let fs = Arc::new(FaultyFs::new());
    let session = gupfs_fuse::mount(dir.path(), &config, fs, spawner).unwrap();
    let path = dir.path().join("plain");
    let stat_thread = thread::spawn(move || fs::metadata(path));
    thread::sleep(Duration::from_millis(100));
    assert!(!stat_thread.is_finished() && !session.is_over());
    drop(kept_reader.lock().unwrap().take());
    let error = stat_thread.join().unwrap().unwrap_err();
    assert!(
        matches!(
            error.raw_os_error(),
            Some(libc::ECONNABORTED | libc::ENOTCONN)
        ),
        "{error}"
    );
    session.wait();
}
