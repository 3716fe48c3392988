//! Existing files get another layout while programs read and write them, and no byte is lost.

use crate::mirrored_files::{check, stale_objects, wait_until_all_targets_are_up, write};
use crate::running::{can_mount, command};
use crate::scrubbed::object_files;
use crate::test_cluster::TestCluster;
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};

/// More than the first component of a layout.
const RECORDS: u64 = 60;

fn convert(path: &Path, more: &[&str]) -> Output {
    let mut convert = command();
    convert.args(["layout", "convert", "--json"]).arg(path);
    convert.args(more).output().unwrap()
}

fn text_of(output: &[u8]) -> &str {
    std::str::from_utf8(output).unwrap()
}

fn converted(path: &Path, more: &[&str]) -> Value {
    let output = convert(path, more);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Number of objects in each component of a file.
fn objects(path: &Path) -> Vec<usize> {
    let get = command()
        .args(["layout", "get", "--json"])
        .arg(path)
        .output();
    let shown: Value = serde_json::from_slice(&get.unwrap().stdout).unwrap();
    let components = shown["file"]["components"].as_array().unwrap();
    let counts = components
        .iter()
        .map(|it| it["objects"].as_array().unwrap().len());
    counts.collect()
}

/// A file with a hole of 40 MiB, and two bytes of data.
fn make_sparse(path: &Path) {
    let file = File::create_new(path).unwrap();
    file.write_all_at(b"a", 1_000_000).unwrap();
    file.write_all_at(b"z", 41_000_000).unwrap();
    file.set_len(50_000_000).unwrap();
}

fn check_sparse(path: &Path) {
    let found = fs::read(path).unwrap();
    assert_eq!(found.len(), 50_000_000);
    let data = found.iter().enumerate().filter(|(_, byte)| **byte != 0);
    assert!(data.eq([(1_000_000, &b'a'), (41_000_000, &b'z')]));
}

/// Ends the reader also if the test fails before it says so.
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn files_of_a_tree_get_copies_and_lose_them_again_while_a_program_reads() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 2);
    let (a, b) = (cluster.mounts[0].at.clone(), cluster.mounts[1].at.clone());
    let (dir, seen) = (a.join("d"), b.join("d"));
    fs::create_dir_all(dir.join("below")).unwrap();
    wait_until_all_targets_are_up(&a);
    let names = ["f0", "f1", "below/f2"];
    for name in names {
        write(&File::create_new(dir.join(name)).unwrap(), 0..RECORDS);
    }
    fs::hard_link(dir.join("f0"), dir.join("below/link")).unwrap();
    make_sparse(&dir.join("sparse"));
    fs::write(dir.join("small"), "in the inode").unwrap();
    std::os::unix::fs::symlink("f0", dir.join("symlink")).unwrap();
    let refused = convert(&dir, &["--redundancy", "mirror:2"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let refused = convert(&dir, &["--recursive", "--unit", "1000"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text_of(&refused.stderr).contains("unit: 64KiB to 1GiB"));
    let mut set = command();
    set.args(["layout", "set", "--redundancy", "mirror:2"]);
    let refused = set.arg(dir.join("f0")).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text_of(&refused.stderr).contains("is not a directory"));

    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stopping = StopOnDrop(&stop);
        let reader = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                names
                    .iter()
                    .for_each(|name| check(&seen.join(name), RECORDS));
                check_sparse(&seen.join("sparse"));
            }
        });
        // A change of the redundancy keeps the number of stripes.
        for mirrored_objects in [[2, 8], [2, 4], [2, 4]] {
            let mirrored = converted(&dir, &["--recursive", "--redundancy", "mirror:2"]);
            assert_eq!(mirrored["examined"], 5, "{mirrored}");
            assert_eq!(mirrored["converted"], 4, "{mirrored}");
            assert_eq!(objects(&dir.join("f1")), mirrored_objects);
            let once = converted(
                &dir,
                &["--recursive", "--redundancy", "none", "--count", "2"],
            );
            assert_eq!(once["converted"], 4, "{once}");
            assert_eq!(objects(&dir.join("f1")), [1, 2]);
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    // As new files, and once more: nothing is left to do.
    let as_new = converted(&dir, &["--recursive"]);
    assert_eq!(as_new["converted"], 4, "{as_new}");
    let again = converted(&dir, &["--recursive"]);
    assert_eq!(
        (&again["converted"], &again["unneeded"]),
        (&0.into(), &5.into()),
        "{again}"
    );
    // The former objects are removed.
    cluster.wait_until("freed", |status| status["mds"]["purging"] == 0);
    let ino = fs::metadata(dir.join("f1")).unwrap().ino();
    let stored = (0..2).map(|oss| object_files(&cluster, oss, ino).len());
    // 4 MiB, and two of 1 MiB.
    assert_eq!(stored.sum::<usize>(), 3);

    converted(&dir, &["--recursive", "--redundancy", "mirror:2"]);
    assert_eq!(stale_objects(&dir.join("f0")), 0);
    for lost in 0..2 {
        cluster.osses[lost].kill();
        names
            .iter()
            .for_each(|name| check(&seen.join(name), RECORDS));
        check_sparse(&seen.join("sparse"));
        assert_eq!(fs::read(seen.join("small")).unwrap(), b"in the inode");
        cluster.osses[lost].start_again();
        wait_until_all_targets_are_up(&a);
    }
}

#[test]
fn a_file_that_is_being_written_is_converted_when_it_rests_and_the_server_may_be_killed_meanwhile()
{
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 2);
    let (a, b) = (cluster.mounts[0].at.clone(), cluster.mounts[1].at.clone());
    wait_until_all_targets_are_up(&a);
    let (path, seen) = (a.join("f"), b.join("f"));
    let file = File::create_new(&path).unwrap();
    write(&file, 0..RECORDS);
    // Open for writing, on the mount that asks and on the other one: it rests.
    converted(&path, &["--redundancy", "mirror:2"]);
    write(&file, 10..20);
    converted(&seen, &["--redundancy", "none"]);
    assert_eq!(objects(&path), [1, 4]);
    write(&file, RECORDS..RECORDS + 10);
    check(&seen, RECORDS + 10);

    // Its writer makes no pause.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                write(&file, 3..6);
            }
        });
        let left = convert(&seen, &["--count", "1"]);
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        let said: Value = serde_json::from_slice(&left.stdout).unwrap();
        let is_left = left.status.code() == Some(1) && said["left"][0]["why"].is_string();
        assert!(is_left || said["converted"] == 1, "{left:?}");
    });
    check(&seen, RECORDS + 10);

    let larger = a.join("larger");
    write(&File::create_new(&larger).unwrap(), 0..600);
    std::thread::scope(|scope| {
        let conversion = scope.spawn(|| converted(&larger, &["--redundancy", "mirror:2"]));
        for _ in 0..2 {
            std::thread::sleep(std::time::Duration::from_millis(100));
            cluster.mds.kill();
            cluster.mds.start_again();
        }
        conversion.join().unwrap();
    });
    assert_eq!(objects(&larger), [2, 8]);
    check(&b.join("larger"), 600);
}

#[test]
fn lost_bytes_are_not_converted_into_zeros() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 1);
    let a = cluster.mounts[0].at.clone();
    wait_until_all_targets_are_up(&a);
    let path = a.join("f");
    let file = File::create_new(&path).unwrap();
    write(&file, 0..RECORDS);
    file.sync_all().unwrap();
    drop(file);
    let ino = fs::metadata(&path).unwrap().ino();
    let lost = object_files(&cluster, 1, ino).pop().unwrap();
    let kept = cluster.store().parent().unwrap().join("kept");
    // The server has the file open otherwise.
    let mut move_file = |from: &Path, to: &Path| {
        cluster.osses[1].kill();
        fs::rename(from, to).unwrap();
        cluster.osses[1].start_again();
        wait_until_all_targets_are_up(&a);
    };
    move_file(&lost, &kept);
    let before = objects(&path);
    let refused = convert(&path, &["--count", "1"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said: Value = serde_json::from_slice(&refused.stdout).unwrap();
    let why = said["left"][0]["why"].as_str().unwrap();
    assert!(why.contains("ost"), "{why}");
    assert_eq!(objects(&path), before);
    // Nor is a byte changed that does not match its checksum.
    move_file(&kept, &lost);
    let damaged = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&lost)
        .unwrap();
    damaged.write_all_at(&[0xff, 0x00, 0xff], 5_000).unwrap();
    let refused = convert(&path, &["--count", "1"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert_eq!(objects(&path), before);
}
