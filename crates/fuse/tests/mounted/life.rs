//! From mounting to the end.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use gupfs_fuse::connection::Control;
use gupfs_fuse::guardian::{self, FAREWELL, Orders, Watched};
use gupfs_fuse::mountpoint::{self, Found};
use gupfs_fuse::{InitFlags, MountError, Unmounted, mountinfo, read_ahead};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::odd::Odd;
use crate::rig::{Rig, config, errno, have_fuse, memory, until};

fn odd() -> Option<Rig<Odd>> {
    Rig::new(Odd::new(), config())
}

#[test]
fn a_mount_is_named_in_the_table_as_configured() {
    let Some(rig) = memory() else { return };
    let entry = mountinfo::at(rig.root()).unwrap().unwrap();
    assert_eq!(
        (entry.kind.as_str(), entry.source.as_str()),
        ("fuse.doortest", "test,with \\ signs")
    );
    assert_eq!(entry.device, rig.session.mounted().device);
    let options = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = options
        .lines()
        .find(|line| line.contains(rig.root().to_str().unwrap()))
        .unwrap();
    for option in ["nosuid", "nodev", "default_permissions", "allow_other"] {
        assert!(line.contains(option), "{line}");
    }
}

#[test]
fn the_kernel_agrees_to_what_the_rules_of_coherence_need() {
    let Some(rig) = memory() else { return };
    let negotiated = rig.session.negotiated();
    assert!(
        negotiated.has(gupfs_fuse::Config::FLAGS),
        "missing {:?}",
        gupfs_fuse::Config::FLAGS - negotiated.flags
    );
    assert!(negotiated.has(InitFlags::POSIX_LOCKS | InitFlags::FLOCK_LOCKS));
    assert!(!negotiated.has(InitFlags::WRITEBACK_CACHE));
    assert!(negotiated.max_pages <= gupfs_fuse::pages_limit::get());
}

#[test]
fn a_kernel_without_a_needed_flag_is_refused_and_nothing_stays_mounted() {
    if !have_fuse() {
        return;
    }
    let mut config = config();
    // No kernel has this bit.
    config.must = InitFlags::WRITEBACK_CACHE | InitFlags::MAP_ALIGNMENT;
    let before = mountinfo::mounts()
        .unwrap()
        .into_iter()
        .filter(|mount| mount.kind == "fuse.refused")
        .count();
    config.subtype = "refused".into();
    let error = Rig::try_new(Odd::new(), config).err().unwrap();
    assert_eq!(error.to_string(), "this kernel's FUSE lacks MAP_ALIGNMENT");
    let after = mountinfo::mounts()
        .unwrap()
        .into_iter()
        .filter(|mount| mount.kind == "fuse.refused")
        .count();
    assert_eq!(before, after);
}

#[test]
fn a_missing_mount_point_is_an_error_that_names_it() {
    if !have_fuse() {
        return;
    }
    let spawner: gupfs_fuse::Spawner = std::sync::Arc::new(drop);
    let path = std::path::Path::new("/this/is/not/here");
    let error = gupfs_fuse::mount(path, &config(), std::sync::Arc::new(Odd::new()), spawner)
        .err()
        .unwrap();
    assert!(matches!(error, MountError::Path { .. }));
    assert!(
        error.to_string().contains("/this/is/not/here: ENOENT"),
        "{error}"
    );
}

#[test]
fn an_unused_mount_is_unmounted_cleanly_and_ends() {
    let Some(rig) = odd() else { return };
    fs::metadata(rig.path("plain")).unwrap();
    assert_eq!(rig.session.try_unmount().unwrap(), Unmounted::Clean);
    rig.session.wait();
    assert_eq!(rig.fs.unmounted.load(Ordering::Relaxed), 1);
    assert_eq!(rig.session.unmount().unwrap(), Unmounted::Before);
    assert_eq!(
        mountpoint::inspect(rig.root()).unwrap().found,
        Found::Directory { empty: true }
    );
}

#[test]
fn a_mount_in_use_is_detached_and_served_until_the_last_user_is_done() {
    let Some(rig) = memory() else { return };
    fs::write(rig.path("file"), "still here").unwrap();
    let file = File::open(rig.path("file")).unwrap();
    assert_eq!(errno(rig.session.try_unmount()), libc::EBUSY);
    assert_eq!(rig.session.unmount().unwrap(), Unmounted::Detached);
    assert_eq!(fs::read_dir(rig.root()).unwrap().count(), 0);
    let mut bytes = [0; 10];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"still here");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| rig.session.wait());
        thread::sleep(Duration::from_millis(50));
        assert!(!waiter.is_finished());
        drop(file);
    });
}

#[test]
fn a_dropped_session_takes_its_mount_with_it() {
    let Some(rig) = odd() else { return };
    let fs = rig.fs.clone();
    let (session, dir) = rig.stop_runtime();
    drop(session);
    assert_eq!(mountinfo::at(dir.path()).unwrap(), None);
    until("it has ended", || fs.unmounted.load(Ordering::Relaxed) == 1);
}

#[test]
fn an_aborted_mount_is_dead_until_it_is_detached() {
    let Some(rig) = odd() else { return };
    let file = File::open(rig.path("plain")).unwrap();
    let control = Control::open(rig.session.connection()).unwrap();
    assert_eq!(control.waiting().unwrap(), 0);
    control.abort().unwrap();
    rig.session.wait();
    assert_eq!(errno(file.read_at(&mut [0; 10], 0)), libc::ENOTCONN);
    let inspection = mountpoint::inspect(rig.root()).unwrap();
    assert_eq!(inspection.found, Found::Dead);
    assert_eq!(inspection.mounted.unwrap().kind, "fuse.doortest");
    mountpoint::detach(rig.root()).unwrap();
    assert_eq!(
        mountpoint::inspect(rig.root()).unwrap().found,
        Found::Directory { empty: true }
    );
    // Nothing to act on any more, and no other mount is hit.
    control.abort().unwrap();
}

/// A guardian that wakes late must not take a later mount for the one it guards, though it bears the same number.
#[test]
fn a_guardian_that_is_late_lets_the_next_mount_alone() {
    let Some(first) = odd() else { return };
    let (id, abort) = (
        first.session.connection(),
        first.session.control().unwrap().hand_over(),
    );
    let control = Control::handed_over(id, abort.unwrap());
    assert!(control.exists().unwrap());
    drop(first);
    let Some(next) = odd() else { return };
    assert!(!control.exists().unwrap());
    let (read, write) = rustix::pipe::pipe().unwrap();
    drop(write);
    let orders = Orders {
        control: &Control::handed_over(next.session.connection(), control.hand_over().unwrap()),
        detach: Some(next.root()),
        silence: None,
    };
    assert_eq!(guardian::watch(read, orders).unwrap(), Watched::Died);
    fs::metadata(next.path("plain")).unwrap();
    assert!(mountinfo::at(next.root()).unwrap().is_some());
}

#[test]
fn a_guardian_ends_the_connection_of_a_server_that_is_gone() {
    let Some(rig) = odd() else { return };
    let (read, write) = rustix::pipe::pipe().unwrap();
    let orders = Orders {
        control: rig.session.control().unwrap(),
        detach: Some(rig.root()),
        silence: None,
    };
    thread::scope(|scope| {
        let guardian = scope.spawn(move || guardian::watch(read, orders).unwrap());
        thread::sleep(Duration::from_millis(20));
        assert!(!guardian.is_finished());
        drop(write);
        assert_eq!(guardian.join().unwrap(), Watched::Died);
    });
    rig.session.wait();
    assert_eq!(mountinfo::at(rig.root()).unwrap(), None);
}

#[test]
fn a_guardian_lets_a_mount_alone_that_ended_well() {
    let Some(rig) = odd() else { return };
    let (read, write) = rustix::pipe::pipe().unwrap();
    rustix::io::write(&write, &[FAREWELL]).unwrap();
    let orders = Orders {
        control: rig.session.control().unwrap(),
        detach: Some(rig.root()),
        silence: None,
    };
    assert_eq!(guardian::watch(read, orders).unwrap(), Watched::EndedWell);
    fs::metadata(rig.path("plain")).unwrap();
}

#[test]
fn read_ahead_is_what_was_set() {
    let Some(rig) = odd() else { return };
    rig.session.set_read_ahead(4096).unwrap();
    assert_eq!(read_ahead::get(rig.session.mounted().device).unwrap(), 4096);
}

#[test]
fn who_may_not_mount_mounts_through_the_helper() {
    if !have_fuse() {
        return;
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            // Of this thread only; the helper is a program of root's and gets it back.
            let mut sets = capabilities(None).unwrap();
            sets.effective -= CapabilitySet::SYS_ADMIN;
            set_capabilities(None, sets).unwrap();
            let rig = Rig::try_new(Odd::new(), config()).unwrap();
            assert_eq!(
                fs::metadata(rig.path("plain")).unwrap().len(),
                crate::odd::SIZE
            );
            let file = File::open(rig.path("plain")).unwrap();
            assert_eq!(errno(rig.session.try_unmount()), libc::EBUSY);
            assert_eq!(rig.session.unmount().unwrap(), Unmounted::Detached);
            drop(file);
            rig.session.wait();
        });
    });
}
