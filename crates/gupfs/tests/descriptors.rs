//! Low limits of open files: the process divides the descriptors among its stores, and refuses too low a limit.

mod running;

use running::{TestStore, UpProcess, can_mount, command_with_files};
use std::fs;

/// Far fewer than files are written below, also than the usual limit of a shell.
const FEW: u64 = 640;

fn up(test_store: &TestStore, files: u64) -> Result<UpProcess, String> {
    let command = command_with_files(files);
    UpProcess::try_start_by(
        command,
        &test_store.store(),
        &test_store.mnt(),
        &["--osts", "2"],
    )
}

fn open_files(running: &UpProcess) -> usize {
    let dir = format!("/proc/{}/fd", running.child.id());
    fs::read_dir(dir).unwrap().count()
}

#[test]
fn more_files_than_descriptors_are_written_read_and_checked() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let running = up(&test_store, FEW).unwrap();
    let name = |n: usize| test_store.mnt().join(format!("{}/{n}", n % 7));
    for dir in 0..7 {
        fs::create_dir(test_store.mnt().join(dir.to_string())).unwrap();
    }
    let content = |n: usize| vec![n as u8; 5_000 + n];
    let mut most = 0;
    for n in 0..1_500 {
        fs::write(name(n), content(n)).unwrap();
        if n % 50 == 0 {
            most = most.max(open_files(&running));
        }
    }
    for n in 0..1_500 {
        assert_eq!(fs::read(name(n)).unwrap(), content(n), "{n}");
    }
    assert!(most > 100 && most < FEW as usize, "{most} are open");
    // After a crash all regions count as dirty.
    running.kill();
    running::wait_until_unmounted(&test_store.mnt());
    let mut check = command_with_files(FEW);
    let checked = check.args(["check", "--data"]).arg(test_store.store());
    let checked = checked.output().unwrap();
    let printed = String::from_utf8_lossy(&checked.stdout);
    assert_eq!(checked.status.code(), Some(0), "{printed}");
    let running = up(&test_store, FEW).unwrap();
    for n in 0..1_500 {
        assert_eq!(fs::read(name(n)).unwrap(), content(n), "{n}");
    }
    assert_eq!(running.stop(), 0);
}

#[test]
fn too_few_descriptors_are_refused_with_the_number_needed() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let printed = up(&test_store, 300).err().expect("it was not refused");
    assert!(
        printed.contains("this process may open 300 files, and a store of 2 OSTs needs 528"),
        "{printed}"
    );
    assert!(printed.contains("ulimit -n"), "{printed}");
    // `gupfs doctor` reports the same for a new store.
    let doctor = command_with_files(300).arg("doctor").output().unwrap();
    let printed = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert_eq!(doctor.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("at most 300; a store of 4 OSTs needs 752"),
        "{printed}"
    );
}
