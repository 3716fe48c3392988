//! Mounting, unmounting and aborting.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use gupfs_fuse::connection::ConnectionControl;
use gupfs_fuse::mountpoint::{self, MountpointState};
use gupfs_fuse::watchdog::{self, CLEAN_END, WatchdogOptions, WatchdogOutcome};
use gupfs_fuse::{InitFlags, MountError, UnmountOutcome, mountinfo, read_ahead};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::faulty_fs::FaultyFs;
use crate::test_mount::{TestMount, config, errno, have_fuse, memory, until};

fn faulty_mount() -> Option<TestMount<FaultyFs>> {
    TestMount::new(FaultyFs::new(), config())
}

#[test]
fn the_mount_table_shows_the_configured_names_and_options() {
    let Some(mount) = memory() else { return };
    let entry = mountinfo::mount_at(mount.root()).unwrap().unwrap();
    assert_eq!(
        (entry.kind.as_str(), entry.source.as_str()),
        ("fuse.fusetest", "test,with \\ signs")
    );
    assert_eq!(entry.device, mount.session.info().device);
    let options = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = options
        .lines()
        .find(|line| line.contains(mount.root().to_str().unwrap()))
        .unwrap();
    for option in ["nosuid", "nodev", "default_permissions", "allow_other"] {
        assert!(line.contains(option), "{line}");
    }
}

#[test]
fn the_kernel_grants_the_flags_that_coherence_needs() {
    let Some(mount) = memory() else { return };
    let negotiated = mount.session.negotiated();
    assert!(
        negotiated.has(gupfs_fuse::MountConfig::FLAGS),
        "missing {:?}",
        gupfs_fuse::MountConfig::FLAGS - negotiated.flags
    );
    assert!(negotiated.has(InitFlags::POSIX_LOCKS | InitFlags::FLOCK_LOCKS));
    assert!(!negotiated.has(InitFlags::WRITEBACK_CACHE));
    assert!(negotiated.max_pages <= gupfs_fuse::pages_limit::get());
}

#[test]
fn a_kernel_without_a_required_flag_is_refused_and_nothing_stays_mounted() {
    if !have_fuse() {
        return;
    }
    let mut config = config();
    // No kernel offers MAP_ALIGNMENT.
    config.required_flags = InitFlags::WRITEBACK_CACHE | InitFlags::MAP_ALIGNMENT;
    let before = mountinfo::mounts()
        .unwrap()
        .into_iter()
        .filter(|mount| mount.kind == "fuse.refused")
        .count();
    config.subtype = "refused".into();
    let error = TestMount::try_new(FaultyFs::new(), config).err().unwrap();
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
    let error = gupfs_fuse::mount(
        path,
        &config(),
        std::sync::Arc::new(FaultyFs::new()),
        spawner,
    )
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
    let Some(mount) = faulty_mount() else { return };
    fs::metadata(mount.path("plain")).unwrap();
    assert_eq!(mount.session.try_unmount().unwrap(), UnmountOutcome::Clean);
    mount.session.wait();
    assert_eq!(mount.fs.unmounted.load(Ordering::Relaxed), 1);
    assert_eq!(
        mount.session.unmount().unwrap(),
        UnmountOutcome::AlreadyUnmounted
    );
    assert_eq!(
        mountpoint::inspect(mount.root()).unwrap().state,
        MountpointState::Directory { empty: true }
    );
}

#[test]
fn a_mount_in_use_is_detached_and_served_until_the_last_user_is_done() {
    let Some(mount) = memory() else { return };
    fs::write(mount.path("file"), "still here").unwrap();
    let file = File::open(mount.path("file")).unwrap();
    assert_eq!(errno(mount.session.try_unmount()), libc::EBUSY);
    assert_eq!(mount.session.unmount().unwrap(), UnmountOutcome::Detached);
    assert_eq!(fs::read_dir(mount.root()).unwrap().count(), 0);
    let mut bytes = [0; 10];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"still here");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| mount.session.wait());
        thread::sleep(Duration::from_millis(50));
        assert!(!waiter.is_finished());
        drop(file);
    });
}

#[test]
fn dropping_a_session_unmounts_it() {
    let Some(mount) = faulty_mount() else { return };
    let fs = mount.fs.clone();
    let (session, dir) = mount.stop_runtime();
    drop(session);
    assert_eq!(mountinfo::mount_at(dir.path()).unwrap(), None);
    until("it has ended", || fs.unmounted.load(Ordering::Relaxed) == 1);
}

#[test]
fn an_aborted_mount_is_dead_until_it_is_detached() {
    let Some(mount) = faulty_mount() else { return };
    let file = File::open(mount.path("plain")).unwrap();
    let control = ConnectionControl::open(mount.session.connection()).unwrap();
    assert_eq!(control.waiting().unwrap(), 0);
    control.abort().unwrap();
    mount.session.wait();
    assert_eq!(errno(file.read_at(&mut [0; 10], 0)), libc::ENOTCONN);
    let inspection = mountpoint::inspect(mount.root()).unwrap();
    assert_eq!(inspection.state, MountpointState::Dead);
    assert_eq!(inspection.mounted.unwrap().kind, "fuse.fusetest");
    mountpoint::detach(mount.root()).unwrap();
    assert_eq!(
        mountpoint::inspect(mount.root()).unwrap().state,
        MountpointState::Directory { empty: true }
    );
    // The connection is gone: the abort has no effect, and affects no other mount.
    control.abort().unwrap();
}

/// A watchdog that reacts late must not mistake a later mount for its own, though it has the same number.
#[test]
fn a_late_watchdog_does_not_touch_the_next_mount() {
    let Some(first) = faulty_mount() else { return };
    let (id, abort) = (
        first.session.connection(),
        first.session.control().unwrap().clone_abort_file(),
    );
    let control = ConnectionControl::from_abort_file(id, abort.unwrap());
    assert!(control.exists().unwrap());
    drop(first);
    let Some(next) = faulty_mount() else { return };
    assert!(!control.exists().unwrap());
    let (read, write) = rustix::pipe::pipe().unwrap();
    drop(write);
    let options = WatchdogOptions {
        control: &ConnectionControl::from_abort_file(
            next.session.connection(),
            control.clone_abort_file().unwrap(),
        ),
        detach: Some(next.root()),
        heartbeat_timeout: None,
    };
    assert_eq!(
        watchdog::watch(read, options).unwrap(),
        WatchdogOutcome::ServerDied
    );
    fs::metadata(next.path("plain")).unwrap();
    assert!(mountinfo::mount_at(next.root()).unwrap().is_some());
}

#[test]
fn the_watchdog_aborts_the_connection_of_a_dead_server() {
    let Some(mount) = faulty_mount() else { return };
    let (read, write) = rustix::pipe::pipe().unwrap();
    let options = WatchdogOptions {
        control: mount.session.control().unwrap(),
        detach: Some(mount.root()),
        heartbeat_timeout: None,
    };
    thread::scope(|scope| {
        let watchdog_thread = scope.spawn(move || watchdog::watch(read, options).unwrap());
        thread::sleep(Duration::from_millis(20));
        assert!(!watchdog_thread.is_finished());
        drop(write);
        assert_eq!(watchdog_thread.join().unwrap(), WatchdogOutcome::ServerDied);
    });
    mount.session.wait();
    assert_eq!(mountinfo::mount_at(mount.root()).unwrap(), None);
}

#[test]
fn the_watchdog_does_not_touch_a_mount_that_ended_cleanly() {
    let Some(mount) = faulty_mount() else { return };
    let (read, write) = rustix::pipe::pipe().unwrap();
    rustix::io::write(&write, &[CLEAN_END]).unwrap();
    let options = WatchdogOptions {
        control: mount.session.control().unwrap(),
        detach: Some(mount.root()),
        heartbeat_timeout: None,
    };
    assert_eq!(
        watchdog::watch(read, options).unwrap(),
        WatchdogOutcome::CleanEnd
    );
    fs::metadata(mount.path("plain")).unwrap();
}

#[test]
fn read_ahead_is_set() {
    let Some(mount) = faulty_mount() else { return };
    mount.session.set_read_ahead(4096).unwrap();
    assert_eq!(read_ahead::get(mount.session.info().device).unwrap(), 4096);
}

#[test]
fn a_process_without_cap_sys_admin_mounts_through_fusermount3() {
    if !have_fuse() {
        return;
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            // For this thread only; fusermount3 is setuid root and regains the capability.
            let mut sets = capabilities(None).unwrap();
            sets.effective -= CapabilitySet::SYS_ADMIN;
            set_capabilities(None, sets).unwrap();
            let mount = TestMount::try_new(FaultyFs::new(), config()).unwrap();
            assert_eq!(
                fs::metadata(mount.path("plain")).unwrap().len(),
                crate::faulty_fs::SIZE
            );
            let file = File::open(mount.path("plain")).unwrap();
            assert_eq!(errno(mount.session.try_unmount()), libc::EBUSY);
            assert_eq!(mount.session.unmount().unwrap(), UnmountOutcome::Detached);
            drop(file);
            mount.session.wait();
        });
    });
}
