//! Telling the kernel what it may no longer believe.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use gupfs_fuse::{NodeId, NotifyError, Transport, Unique};

use crate::odd::{Odd, SIZE};
use crate::rig::{Rig, config, errno, until};

fn odd() -> Option<Rig<Odd>> {
    Rig::new(Odd::new(), config())
}

#[test]
fn attributes_are_believed_until_they_are_invalidated() {
    let Some(rig) = odd() else { return };
    let size = || fs::metadata(rig.path("plain")).unwrap().len();
    assert_eq!(size(), SIZE);
    rig.fs.size.store(5, Ordering::Relaxed);
    assert_eq!(size(), SIZE);
    let told = rig
        .session
        .notifier()
        .inval_inode(Odd::node("plain"), -1, 0);
    assert_eq!(told, Ok(()));
    assert_eq!(size(), 5);
}

#[test]
fn names_are_believed_until_they_are_invalidated_or_deleted_or_all_are_old() {
    let Some(rig) = odd() else { return };
    let notifier = rig.session.notifier();
    let lookups = || {
        let before = rig.fs.looked_up.load(Ordering::Relaxed);
        fs::metadata(rig.path("plain")).unwrap();
        rig.fs.looked_up.load(Ordering::Relaxed) - before
    };
    assert_eq!((lookups(), lookups()), (1, 0));
    notifier.inval_entry(NodeId::ROOT, b"plain").unwrap();
    assert_eq!((lookups(), lookups()), (1, 0));
    notifier
        .delete(NodeId::ROOT, Odd::node("plain"), b"plain")
        .unwrap();
    assert_eq!((lookups(), lookups()), (1, 0));
    notifier.inc_epoch().unwrap();
    assert_eq!((lookups(), lookups()), (1, 0));
}

#[test]
fn what_the_kernel_does_not_know_is_told_apart() {
    let Some(rig) = odd() else { return };
    let notifier = rig.session.notifier();
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
    let Some(rig) = odd() else { return };
    let notifier = rig.session.notifier();
    let node = Odd::node("cached");
    let file = File::open(rig.path("cached")).unwrap();
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
            !rig.fs.retrieved.lock().unwrap().is_empty()
        });
        rig.fs.retrieved.lock().unwrap().remove(0)
    };
    assert_eq!(retrieve(76, 8192), (76, 8192, vec![b'k'; 10]));
    // The page before it is not there.
    assert_eq!(retrieve(77, 8190), (77, 8190, vec![]));
    notifier.inval_inode(node, 0, 0).unwrap();
    assert_eq!(&read(), b"....");
}

#[test]
fn unused_nodes_are_pruned() {
    let Some(rig) = odd() else { return };
    fs::metadata(rig.path("plain")).unwrap();
    assert_eq!(
        rig.session
            .notifier()
            .prune(&[Odd::node("plain"), NodeId(999)]),
        Ok(())
    );
}

#[test]
fn what_was_not_answered_is_sent_again() {
    let Some(rig) = odd() else { return };
    let path = rig.path("slow");
    let file = File::open(&path).unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut bytes = [0; 2];
            file.read_exact_at(&mut bytes, 0).unwrap();
            bytes
        });
        until("it waits", || rig.session.counts().waiting == 1);
        rig.session.notifier().resend().unwrap();
        assert_eq!(&reader.join().unwrap(), b"ss");
    });
    // The kernel sends again what it gave to a reader of the device, not what it put into a ring.
    let again = match rig.session.transport() {
        Transport::IoUring => 0,
        _ => 1,
    };
    assert_eq!(rig.session.counts().parked, 1 + again);
    until("nothing waits", || rig.session.counts().waiting == 0);
}

#[test]
fn a_notice_stuck_behind_our_own_create_is_freed_by_aborting() {
    let Some(rig) = odd() else { return };
    fs::metadata(rig.path("plain")).unwrap();
    let (path, notifier) = (rig.path("stuck"), rig.session.notifier().clone());
    thread::scope(|scope| {
        let create = scope.spawn(|| {
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
        });
        until("the create waits", || rig.session.counts().waiting == 1);
        let notice = scope.spawn(|| notifier.inval_entry(NodeId::ROOT, b"plain"));
        thread::sleep(Duration::from_millis(100));
        assert!(
            !notice.is_finished(),
            "the directory's lock is held by the create"
        );
        rig.session.abort().unwrap();
        assert!(create.join().unwrap().is_err());
        // The kernel had begun with it.
        let _ = notice.join().unwrap();
    });
    rig.fs.gate.notify_one();
    rig.session.wait();
}

#[test]
fn a_notice_that_may_wait_is_refused_on_a_reactor() {
    let Some(rig) = odd() else { return };
    *rig.fs.notifier.lock().unwrap() = Some(rig.session.notifier().clone());
    let file = File::open(rig.path("notifies")).unwrap();
    assert_eq!(errno(file.read_at(&mut [0; 10], 0)), libc::EIO);
}
