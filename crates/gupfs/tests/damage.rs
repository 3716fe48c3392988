//! Reads of lost data: an error that names the object, never zeros.

mod running;

use running::{TestStore, UpProcess, can_mount, gupfs};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const EIO: Option<i32> = Some(5);

fn status(test_store: &TestStore) -> serde_json::Value {
    let output = gupfs([
        "status".as_ref(),
        test_store.store().as_os_str(),
        "--json".as_ref(),
    ]);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn data_files(test_store: &TestStore) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for ost in 0..2 {
        let top = test_store.store().join(format!("ost{ost}/objects"));
        for dir in fs::read_dir(top).unwrap() {
            let files = fs::read_dir(dir.unwrap().path()).unwrap();
            found.extend(files.map(|file| file.unwrap().path()));
        }
    }
    found
}

/// Drops the page cache, which would hide the loss of an object.
fn restart(test_store: &TestStore, running: UpProcess) -> UpProcess {
    assert_eq!(running.stop(), 0);
    test_store.up()
}

#[test]
fn a_deleted_object_is_an_error_named_in_status_and_never_zeros() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let running = test_store.up();
    let (lost, sparse) = (
        test_store.mnt().join("lost"),
        test_store.mnt().join("sparse"),
    );
    fs::write(&lost, vec![7; 1 << 20]).unwrap();
    let file = fs::File::create(&sparse).unwrap();
    file.write_all_at(b"end", 5 << 20).unwrap();
    drop(file);
    assert_eq!(running.stop(), 0);
    let files = data_files(&test_store);
    let object = files
        .iter()
        .find(|path| {
            fs::metadata(path).unwrap().len() == 1 << 20 && fs::read(path).unwrap()[0] == 7
        })
        .unwrap();
    fs::remove_file(object).unwrap();
    let running = test_store.up();
    assert_eq!(fs::read(&lost).unwrap_err().raw_os_error(), EIO);
    // Holes are not losses.
    let read = fs::read(&sparse).unwrap();
    assert!(read.len() == (5 << 20) + 3 && read[..5 << 20].iter().all(|byte| *byte == 0));
    let name = object.file_name().unwrap().to_str().unwrap();
    let shown = status(&test_store).to_string();
    assert!(shown.contains(name), "{name} is not in {shown}");
    // Files with lost objects can be removed.
    fs::remove_file(&lost).unwrap();
    assert_eq!(running.stop(), 0);
}

#[test]
fn bit_rot_is_an_error_named_in_status() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let running = test_store.up();
    let (rotten, whole) = (
        test_store.mnt().join("rotten"),
        test_store.mnt().join("whole"),
    );
    fs::write(&rotten, vec![7; 1 << 20]).unwrap();
    fs::write(&whole, vec![8; 1 << 20]).unwrap();
    assert_eq!(running.stop(), 0);
    let object = data_files(&test_store)
        .into_iter()
        .find(|path| fs::read(path).unwrap()[0] == 7)
        .unwrap();
    let file = fs::OpenOptions::new().write(true).open(&object).unwrap();
    file.write_all_at(&[0], 700_000).unwrap();
    let running = test_store.up();
    let file = fs::File::open(&rotten).unwrap();
    let mut block = [0; 4096];
    assert_eq!(
        file.read_at(&mut block, 700_000 / 4096 * 4096)
            .unwrap_err()
            .raw_os_error(),
        EIO
    );
    assert!(fs::read(&whole).unwrap() == vec![8; 1 << 20]);
    let name = object.file_name().unwrap().to_str().unwrap();
    assert!(status(&test_store).to_string().contains(name));
    drop(file);
    assert_eq!(running.stop(), 0);
}

fn copy_tree(from: &Path, to: &Path) {
    let done = std::process::Command::new("cp")
        .arg("-a")
        .arg(from)
        .arg(to)
        .status()
        .unwrap();
    assert!(done.success());
}

#[test]
fn an_ost_restored_from_an_older_copy_is_down_until_the_loss_is_accepted() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let running = test_store.up();
    let file = |n: usize| test_store.mnt().join(format!("f{n}"));
    for n in 0..8 {
        fs::write(file(n), vec![1; 100_000]).unwrap();
    }
    assert_eq!(running.stop(), 0);
    let (ost, copy) = (
        test_store.store().join("ost1"),
        test_store.dir().join("copy"),
    );
    copy_tree(&ost, &copy);
    let running = test_store.up();
    for n in 0..8 {
        fs::write(file(n), vec![2; 100_000]).unwrap();
    }
    let running = restart(&test_store, running);
    assert_eq!(running.stop(), 0);
    fs::remove_dir_all(&ost).unwrap();
    copy_tree(&copy, &ost);

    let running = test_store.up();
    assert!(running.ready.contains("(1 down"), "{}", running.ready);
    let mut failed = 0;
    for n in 0..8 {
        match fs::read(file(n)) {
            Ok(bytes) => assert!(bytes == vec![2; 100_000], "old bytes pass for new ones"),
            Err(error) => {
                assert_eq!(error.raw_os_error(), EIO);
                failed += 1;
            }
        }
    }
    assert!(failed > 0, "nothing lay on ost1");
    let shown = status(&test_store).to_string();
    assert!(shown.contains("older copy"), "{shown}");
    // New files go where they can.
    fs::write(test_store.mnt().join("new"), vec![3; 100_000]).unwrap();
    assert_eq!(running.stop(), 0);

    let running = UpProcess::start(&test_store.store(), &test_store.mnt(), &["--accept-loss"]);
    assert!(!running.ready.contains("down"), "{}", running.ready);
    assert_eq!(running.stop(), 0);
}

#[test]
fn a_missing_ost_is_down_and_the_others_serve() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let running = test_store.up();
    let file = |n: usize| test_store.mnt().join(format!("f{n}"));
    for n in 0..8 {
        fs::write(file(n), vec![1; 100_000]).unwrap();
    }
    assert_eq!(running.stop(), 0);
    // As if its disk were not mounted: an empty directory.
    let (ost, aside) = (
        test_store.store().join("ost0"),
        test_store.dir().join("aside"),
    );
    fs::rename(&ost, &aside).unwrap();
    fs::create_dir(&ost).unwrap();
    let running = test_store.up();
    assert!(running.ready.contains("(1 down"), "{}", running.ready);
    let readable = (0..8).filter(|n| fs::read(file(*n)).is_ok()).count();
    assert!((1..8).contains(&readable), "{readable} of 8 can be read");
    for n in 8..12 {
        fs::write(file(n), vec![2; 100_000]).unwrap();
    }
    assert_eq!(
        fs::read_dir(&ost)
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name() != "lock")
            .count(),
        0
    );
    assert_eq!(running.stop(), 0);
    fs::remove_dir_all(&ost).unwrap();
    fs::rename(&aside, &ost).unwrap();
    let running = test_store.up();
    for n in 0..12 {
        assert_eq!(fs::read(file(n)).unwrap().len(), 100_000);
    }
    assert_eq!(running.stop(), 0);
}
