//! Several mounts write one file at the same time.

use crate::running::can_mount;
use crate::test_cluster::TestCluster;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Barrier;

/// A record of no round size, so that records share blocks and objects.
const RECORD: usize = 47_008;

fn content(number: u64) -> [u8; RECORD] {
    std::array::from_fn(|at| (number as usize * 31 + at / 1000) as u8)
}

fn open(mount: &Path) -> File {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    options.open(mount.join("shared")).unwrap()
}

/// Each of the files writes every so manieth record of those from `from` to `to`.
fn write_interleaved(files: &[File], from: u64, to: u64) {
    let barrier = Barrier::new(files.len());
    std::thread::scope(|scope| {
        for (number, file) in files.iter().enumerate() {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                for record in (from + number as u64..to).step_by(files.len()) {
                    file.write_all_at(&content(record), record * RECORD as u64)
                        .unwrap();
                }
            });
        }
    });
}

fn check(file: &File, records: u64) {
    assert_eq!(file.metadata().unwrap().len(), records * RECORD as u64);
    let mut record = [0; RECORD];
    for number in 0..records {
        file.read_exact_at(&mut record, number * RECORD as u64)
            .unwrap();
        assert!(record == content(number), "record {number}");
    }
}

/// Finished requests of the metadata server about write leases.
fn lease_requests(cluster: &TestCluster) -> u64 {
    let status = cluster.status();
    let ops = status["mds"]["ops"].as_array().unwrap().iter();
    let about = |op: &str| op.ends_with("_write") || op == "begin_write_at";
    ops.filter(|op| about(op["op"].as_str().unwrap()))
        .map(|op| op["done"].as_u64().unwrap())
        .sum()
}

/// Whether each mount has a concurrent write lease.
fn are_all_concurrent(cluster: &TestCluster) -> bool {
    cluster.mounts.iter().all(|mount| {
        let status = TestCluster::status_of(&mount.at);
        status["client"]["concurrently_leased_inodes"].as_u64() == Some(1)
    })
}

#[test]
fn records_that_three_mounts_write_into_one_file_all_arrive_and_take_no_lease_from_another() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(2, 3);
    let files: Vec<File> = (cluster.mounts.iter())
        .map(|mount| open(&mount.at))
        .collect();
    // A mount whose others have finished before it has the file for itself: then they write once more.
    let mut rounds = 0;
    while !are_all_concurrent(&cluster) {
        write_interleaved(&files, 0, 60);
        rounds += 1;
        assert!(rounds < 50, "each takes the lease from the others");
    }
    let before = lease_requests(&cluster);
    write_interleaved(&files, 60, 660);
    // Each asks now and then whether it is alone.
    let asked = lease_requests(&cluster) - before;
    assert!(asked <= 150, "{asked} requests for 600 writes");
    files.iter().for_each(|file| check(file, 660));
    // What needs the file alone takes it back.
    files[0].set_len(100 * RECORD as u64).unwrap();
    files.iter().for_each(|file| check(file, 100));
    write_interleaved(&files, 100, 130);
    files[1].sync_all().unwrap();
    files.iter().for_each(|file| check(file, 130));
    drop(files);
    cluster.stop();
}

#[test]
fn what_a_killed_mount_wrote_beside_others_stays_and_they_go_on() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 3);
    let files: Vec<File> = (cluster.mounts.iter())
        .map(|mount| open(&mount.at))
        .collect();
    write_interleaved(&files, 0, 90);
    // What is written now is at the object servers when it returns.
    let mut rounds = 0;
    while !are_all_concurrent(&cluster) {
        write_interleaved(&files, 0, 90);
        rounds += 1;
        assert!(rounds < 50, "each takes the lease from the others");
    }
    // The largest record is of the one that dies.
    files[2]
        .write_all_at(&content(92), 92 * RECORD as u64)
        .unwrap();
    cluster.mounts[2].daemon.kill();
    let both = &files[..2];
    for (number, file) in both.iter().enumerate() {
        let record = 90 + number as u64;
        file.write_all_at(&content(record), record * RECORD as u64)
            .unwrap();
    }
    both.iter().for_each(|file| check(file, 93));
    drop(files);
    cluster.mounts.truncate(2);
    cluster.stop();
}
