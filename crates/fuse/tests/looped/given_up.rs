//! The end of a loop before the mount's.

use std::fs;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::odd::Odd;
use crate::rig::{config, have_fuse};

/// Without a thread of the door's nobody else would end it.
#[test]
fn a_loop_that_is_given_up_ends_the_mount_with_errors() {
    if !have_fuse() {
        return;
    }
    let mut config = config();
    let dir = tempfile::tempdir().unwrap();
    let kept = Arc::new(Mutex::new(None));
    let keeping = kept.clone();
    config.on_loop = Some(Arc::new(move |reader| {
        *keeping.lock().unwrap() = Some(reader);
    }));
    let spawner: gupfs_fuse::Spawner = Arc::new(drop);
    let fs = Arc::new(Odd::new());
    let session = gupfs_fuse::mount(dir.path(), &config, fs, spawner).unwrap();
    let place = dir.path().join("plain");
    let asking = thread::spawn(move || fs::metadata(place));
    thread::sleep(Duration::from_millis(100));
    assert!(!asking.is_finished() && !session.is_over());
    drop(kept.lock().unwrap().take());
    let error = asking.join().unwrap().unwrap_err();
    assert!(
        matches!(
            error.raw_os_error(),
            Some(libc::ECONNABORTED | libc::ENOTCONN)
        ),
        "{error}"
    );
    session.wait();
}
