//! Small writes that a mount answers before an object server has them.

use crate::running::can_mount;
use crate::test_cluster::TestCluster;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const RECORD: usize = 1_000;

fn content(number: u64) -> [u8; RECORD] {
    std::array::from_fn(|at| (1 + (number as usize * 31 + at / 100) % 255) as u8)
}

/// Larger than what stays in the inode, so that records go to objects.
const FIRST: u64 = 100;

fn create(path: &Path) -> File {
    let file = File::create_new(path).unwrap();
    let first: Vec<u8> = (0..FIRST).flat_map(content).collect();
    file.write_all_at(&first, 0).unwrap();
    file
}

fn write(file: &File, number: u64) {
    let at = number * RECORD as u64;
    file.write_all_at(&content(number), at).unwrap();
}

fn writes_behind(mount: &Path) -> u64 {
    let status = TestCluster::status_of(mount);
    let counted = &status["client"]["counted"];
    counted["writes_behind"].as_u64().unwrap()
}

#[test]
fn a_killed_mount_loses_nothing_that_is_older_than_a_second() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 2);
    let (a, b) = (cluster.mounts[0].at.clone(), cluster.mounts[1].at.clone());
    let file = create(&a.join("f"));
    (FIRST..5_000).for_each(|number| write(&file, number));
    assert!(writes_behind(&a) > 1_000);
    std::thread::sleep(Duration::from_secs(1));
    (5_000..5_100).for_each(|number| write(&file, number));
    cluster.mounts[0].daemon.kill();
    let found = fs::read(b.join("f")).unwrap();
    for number in 0..5_100 {
        let at = number as usize * RECORD;
        let record = found.get(at..found.len().min(at + RECORD));
        let expected = content(number);
        match number < 5_000 {
            true => assert!(record == Some(&expected[..]), "record {number}"),
            // Of the last moment any part may be lost.
            false => {
                for (byte, expected) in record.unwrap_or_default().iter().zip(expected) {
                    assert!([0, expected].contains(byte), "record {number}");
                }
            }
        }
    }
    // The file can be written again.
    fs::write(b.join("f"), "mine now").unwrap();
    drop(file);
    cluster.mounts.remove(0);
    cluster.stop();
}

#[test]
fn two_mounts_and_restarted_servers_lose_no_small_write() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 2);
    let mounts = [cluster.mounts[0].at.clone(), cluster.mounts[1].at.clone()];
    let is_over = AtomicBool::new(false);
    let records = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|number| {
                let (mounts, is_over) = (&mounts, &is_over);
                scope.spawn(move || {
                    let (path, looks) = (format!("f{number}"), &mounts[1 - number]);
                    let file = create(&mounts[number].join(&path));
                    let mut record = FIRST;
                    while !is_over.load(Ordering::Relaxed) {
                        write(&file, record);
                        record += 1;
                        // The other mount sees all of it at once, and reads the last record.
                        if record.is_multiple_of(500) {
                            let other = File::open(looks.join(&path)).unwrap();
                            let size = other.metadata().unwrap().len();
                            assert_eq!(size, record * RECORD as u64);
                            let mut last = [0; RECORD];
                            other
                                .read_exact_at(&mut last, size - RECORD as u64)
                                .unwrap();
                            assert!(last == content(record - 1), "record {record}");
                        }
                        if record.is_multiple_of(7_000) {
                            file.sync_all().unwrap();
                        }
                    }
                    record
                })
            })
            .collect();
        for round in 0..3 {
            std::thread::sleep(Duration::from_millis(700));
            for daemon in [&mut cluster.osses[round % 2], &mut cluster.mds] {
                daemon.kill();
                std::thread::sleep(Duration::from_millis(200));
                daemon.start_again();
            }
        }
        std::thread::sleep(Duration::from_millis(500));
        is_over.store(true, Ordering::Relaxed);
        let records = writers.into_iter().map(|writer| writer.join().unwrap());
        records.collect::<Vec<u64>>()
    });
    for (number, records) in records.into_iter().enumerate() {
        assert!(writes_behind(&mounts[number]) > 100);
        let found = fs::read(mounts[1 - number].join(format!("f{number}"))).unwrap();
        let expected: Vec<u8> = (0..records).flat_map(content).collect();
        assert_eq!(found.len(), expected.len());
        assert!(found == expected, "the file of mount {number}");
    }
    cluster.stop();
}
