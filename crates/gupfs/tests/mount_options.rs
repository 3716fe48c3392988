//! Mount options: access times, and read-only mounts.

mod running;

use running::{TestStore, UpProcess, can_mount};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

fn with<T>(test_store: &TestStore, options: &str, work: impl FnOnce(&Path) -> T) -> T {
    let running = UpProcess::start(&test_store.store(), &test_store.mnt(), &["-o", options]);
    let done = work(&test_store.mnt());
    assert_eq!(running.stop(), 0);
    done
}

fn atime(path: &Path) -> (i64, i64) {
    let stat = fs::metadata(path).unwrap();
    (stat.atime(), stat.atime_nsec())
}

/// Whether each of three reads, one after the other, moved the access time.
fn moved_by_reads(path: &Path, read: impl Fn()) -> [bool; 3] {
    [(); 3].map(|()| {
        let before = atime(path);
        sleep(Duration::from_millis(20));
        read();
        atime(path) != before
    })
}

#[test]
fn access_times_change_according_to_the_mount_option() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let rows = [
        ("relatime", [true, false, false], [true, false, false]),
        ("strictatime", [true; 3], [true; 3]),
        ("noatime", [false; 3], [false; 3]),
        ("nodiratime", [true, false, false], [false; 3]),
        ("nodiratime,strictatime", [true; 3], [false; 3]),
        ("ro,strictatime", [false; 3], [false; 3]),
    ];
    for (number, (options, files, directories)) in rows.into_iter().enumerate() {
        let name = format!("d{number}");
        with(&test_store, "rw", |mnt| {
            fs::create_dir(mnt.join(&name)).unwrap();
            fs::write(mnt.join(&name).join("f"), [7; 100_000]).unwrap();
        });
        with(&test_store, options, |mnt| {
            let (dir, file) = (mnt.join(&name), mnt.join(&name).join("f"));
            let read = || assert_eq!(fs::read(&file).unwrap().len(), 100_000);
            assert_eq!(moved_by_reads(&file, read), files, "{options}, a file");
            let list = || assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
            assert_eq!(
                moved_by_reads(&dir, list),
                directories,
                "{options}, a directory"
            );
        });
    }
}

#[test]
fn a_change_of_status_makes_the_next_read_of_cached_pages_move_the_access_time() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    with(&test_store, "relatime", |mnt| {
        let file = mnt.join("f");
        fs::write(&file, [7; 100_000]).unwrap();
        let read = || assert_eq!(fs::read(&file).unwrap().len(), 100_000);
        assert_eq!(moved_by_reads(&file, read), [true, false, false]);
        sleep(Duration::from_millis(20));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&file, mode).unwrap();
        assert_eq!(moved_by_reads(&file, read), [true, false, false]);
    });
}

#[test]
fn a_read_only_mount_stays_read_only_after_a_remount() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    with(&test_store, "rw", |mnt| {
        fs::write(mnt.join("f"), b"bytes").unwrap();
        fs::create_dir(mnt.join("d")).unwrap();
    });
    let running = UpProcess::start(&test_store.store(), &test_store.mnt(), &["--read-only"]);
    let mnt = test_store.mnt();
    let remounted = Command::new("mount")
        .args(["-i", "-o", "remount,rw"])
        .arg(&mnt)
        .status();
    assert!(remounted.unwrap().success());
    let (file, new) = (mnt.join("f"), mnt.join("new"));
    let tries: Vec<(&str, std::io::Result<()>)> = vec![
        ("create", fs::write(&new, b"x")),
        (
            "write",
            fs::OpenOptions::new().write(true).open(&file).map(drop),
        ),
        (
            "truncate",
            rustix::fs::open(
                &file,
                rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::TRUNC,
                rustix::fs::Mode::empty(),
            )
            .map(drop)
            .map_err(Into::into),
        ),
        ("mkdir", fs::create_dir(&new)),
        ("unlink", fs::remove_file(&file)),
        ("rmdir", fs::remove_dir(mnt.join("d"))),
        ("rename", fs::rename(&file, &new)),
        ("link", fs::hard_link(&file, &new)),
        ("symlink", std::os::unix::fs::symlink("f", &new)),
        (
            "chmod",
            fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)),
        ),
    ];
    for (what, result) in tries {
        let errno = result.map_err(|error| error.raw_os_error());
        assert_eq!(
            errno,
            Err(Some(rustix::io::Errno::ROFS.raw_os_error())),
            "{what}"
        );
    }
    assert_eq!(fs::read(&file).unwrap(), b"bytes");
    assert_eq!(running.stop(), 0);
    with(&test_store, "rw", |mnt| {
        assert_eq!(fs::read_dir(mnt).unwrap().count(), 2)
    });
}
