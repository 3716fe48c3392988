//! Notifications that invalidate the kernel's caches.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use gupfs_fuse::{FuseTransport, NodeId, NotifyError, Unique};

use crate::faulty_fs::{FaultyFs, SIZE};
use crate::test_mount::{TestMount, config, errno, until};

fn faulty_mount() -> Option<TestMount<FaultyFs>> {
    TestMount::new(FaultyFs::new(), config())
}

#[test]
fn attributes_are_cached_until_they_are_invalidated() {
    let Some(mount) = faulty_mount() else { return };
    let size = || fs::metadata(mount.path("plain")).unwrap().len();
    assert_eq!(size(), SIZE);
    mount.fs.size.store(5, Ordering::Relaxed);
    assert_eq!(size(), SIZE);
    let result = mount
        .session
        .notifier()
        .inval_inode(FaultyFs::node("plain"), -1, 0);
    assert_eq!(result, Ok(()));
    assert_eq!(size(), 5);
}

#[test]
fn names_are_cached_until_they_are_invalidated_deleted_or_expired() {
    let Some(mount) = faulty_mount() else { return };
    let notifier = mount.session.notifier();
    let lookups = || {
        let before = mount.fs.looked_up.load(Ordering::Relaxed);
        fs::metadata(mount.path("plain")).unwrap();
        mount.fs.looked_up.load(Ordering::Relaxed) - before
    };
    assert_eq!((lookups(), lookups()), (1, 0));
    notifier.inval_entry(NodeId::ROOT, b"plain").unwrap();
    assert_eq!((lookups(), lookups()), (1, 0));
    notifier
        .delete(NodeId::ROOT, FaultyFs::node("plain"), b"plain")
        .unwrap();
    assert_eq!((lookups(), lookups()), (1, 0));
    notifier.inc_epoch().unwrap();
    assert_eq!((lookups(), lookups()), (1, 0));
}

#[test]
fn notifications_about_unknown_nodes_and_names_report_unknown() {
    let Some(mount) = faulty_mount() else { return };
    let notifier = mount.session.notifier();
    assert_eq!(
        notifier.inval_inode(NodeId(999), 0, 0),
        Err(NotifyError::Unknown)
    );
    assert_eq!(
        notifier.inval_entry(NodeId::ROOT, b"plain"),
        Err(NotifyError::Unknown)
    );
    assert_eq!(
        notifier.inval_entry(NodeId(999), b"plain"),
        Err(NotifyError::Unknown)
    );
    let long = [b'x'; 5000];
    assert!(matches!(
        notifier.inval_entry(NodeId::ROOT, &long),
        Err(NotifyError::Other(_))
    ));
}

#[test]
fn pages_are_stored_retrieved_and_dropped() {
    let Some(mount) = faulty_mount() else { return };
    let notifier = mount.session.notifier();
    let node = FaultyFs::node("cached");
    let file = File::open(mount.path("cached")).unwrap();
    let read = || {
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, 8192).unwrap();
        bytes
    };
    notifier.store(node, 8192, &[b'k'; 4096]).unwrap();
    assert_eq!(&read(), b"kkkk");
    let retrieve = |unique, offset| {
        notifier.retrieve(Unique(unique), node, offset, 10).unwrap();
        until("the pages came", || {
            !mount.fs.retrieved.lock().unwrap().is_empty()
        });
        mount.fs.retrieved.lock().unwrap().remove(0)
    };
    assert_eq!(retrieve(76, 8192), (76, 8192, vec![b'k'; 10]));
    // The page before it is not cached.
    assert_eq!(retrieve(77, 8190), (77, 8190, vec![]));
    notifier.inval_inode(node, 0, 0).unwrap();
    assert_eq!(&read(), b"....");
}

#[test]
fn unused_nodes_are_pruned() {
    let Some(mount) = faulty_mount() else { return };
    fs::metadata(mount.path("plain")).unwrap();
    assert_eq!(
        mount
            .session
            .notifier()
            .prune(&[FaultyFs::node("plain"), NodeId(999)]),
        Ok(())
    );
}

#[test]
fn requests_without_a_reply_are_resent() {
    let Some(mount) = faulty_mount() else { return };
    let path = mount.path("slow");
    let file = File::open(&path).unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut bytes = [0; 2];
            file.read_exact_at(&mut bytes, 0).unwrap();
            bytes
        });
        until("it waits", || mount.session.counts().waiting == 1);
        mount.session.notifier().resend().unwrap();
        assert_eq!(&reader.join().unwrap(), b"ss");
    });
    // The kernel resends requests that it gave to a reader of the device, not those that it put into a ring.
    let resent = match mount.session.transport() {
        FuseTransport::IoUring => 0,
        _ => 1,
    };
    assert_eq!(mount.session.counts().parked, 1 + resent);
    until("nothing waits", || mount.session.counts().waiting == 0);
}

#[test]
fn an_abort_ends_a_notification_blocked_by_a_pending_create() {
    let Some(mount) = faulty_mount() else { return };
    fs::metadata(mount.path("plain")).unwrap();
    let (path, notifier) = (mount.path("stuck"), mount.session.notifier().clone());
    thread::scope(|scope| {
        let create = scope.spawn(|| {
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
        });
        until("the create waits", || mount.session.counts().waiting == 1);
        let notice = scope.spawn(|| notifier.inval_entry(NodeId::ROOT, b"plain"));
        thread::sleep(Duration::from_millis(100));
        assert!(
            !notice.is_finished(),
            "the create holds the directory's lock"
        );
        mount.session.abort().unwrap();
        assert!(create.join().unwrap().is_err());
        // The kernel had begun to process it.
        let _ = notice.join().unwrap();
    });
    mount.fs.gate.notify_one();
    mount.session.wait();
}

#[test]
fn a_notification_that_may_wait_panics_on_a_worker_thread() {
    let Some(mount) = faulty_mount() else { return };
    *mount.fs.notifier.lock().unwrap() = Some(mount.session.notifier().clone());
    let file = File::open(mount.path("notifies")).unwrap();
    assert_eq!(errno(file.read_at(&mut [0; 10], 0)), libc::EIO);
}
