//! What a mount has read, it answers from its memory until any mount changes it; and it reads ahead of programs that read in order.

use crate::running::can_mount;
use crate::test_cluster::TestCluster;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// Inline data, and objects.
const LENGTHS: [usize; 2] = [3_000, 300_000];

fn counted(mount: &Path, name: &str) -> u64 {
    let status = TestCluster::status_of(mount);
    status["client"]["counted"][name].as_u64().unwrap()
}

/// Reads that a mount did not answer from its memory.
fn reads_of_servers(mount: &Path) -> u64 {
    counted(mount, "reads") - counted(mount, "cached_reads")
}

#[test]
fn an_unchanged_file_is_read_once_from_the_servers() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 2);
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    // Inline data comes with the inode.
    for (number, length) in [5_000, 300_000].into_iter().enumerate() {
        let name = format!("file{number}");
        fs::write(a.join(&name), vec![7; length]).unwrap();
        // The first read after a change moves the access time.
        std::thread::sleep(Duration::from_millis(1_100));
        for mount in [b, a] {
            let path = mount.join(&name);
            for _ in 0..2 {
                assert_eq!(fs::read(&path).unwrap(), vec![7; length]);
            }
            let before = reads_of_servers(mount);
            for _ in 0..20 {
                assert_eq!(fs::read(&path).unwrap(), vec![7; length]);
            }
            let after = reads_of_servers(mount);
            assert_eq!(after, before, "{length} bytes on {}", mount.display());
        }
    }
    cluster.stop();
}

#[test]
fn reads_in_order_are_read_ahead_and_random_ones_are_not() {
    const RECORD: usize = 4096;
    const RECORDS: usize = 1024;
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(2, 2);
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    let content: Vec<u8> = (0..RECORD * RECORDS).map(|at| (at / 1000) as u8).collect();
    let mut record = [0; RECORD];
    let mut look = |file: &File, number: usize| {
        let at = number * RECORD;
        file.read_exact_at(&mut record, at as u64).unwrap();
        assert_eq!(record, content[at..at + RECORD], "record {number}");
    };
    for name in ["random", "ordered"] {
        fs::write(a.join(name), &content).unwrap();
    }
    let file = File::open(b.join("random")).unwrap();
    for number in 0..RECORDS {
        look(&file, number * 389 % RECORDS);
    }
    assert_eq!(counted(b, "bytes_read_ahead"), 0);
    drop(file);
    let file = File::open(b.join("ordered")).unwrap();
    let before = reads_of_servers(b);
    for number in 0..RECORDS {
        look(&file, number);
    }
    assert!(counted(b, "bytes_read_ahead") > (RECORD * RECORDS / 2) as u64);
    assert!(reads_of_servers(b) - before < RECORDS as u64 / 10);
    drop(file);
    cluster.stop();
}

#[test]
fn a_descriptor_that_stays_open_shows_each_write_of_any_mount_at_once() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 2);
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    for (number, length) in LENGTHS.into_iter().enumerate() {
        let name = format!("file{number}");
        fs::write(a.join(&name), vec![0; length]).unwrap();
        let held = [a, b].map(|mount| File::open(mount.join(&name)).unwrap());
        let look = |expected: u8, end: u64| {
            for file in &held {
                let mut byte = [0];
                for at in [0, end - 1] {
                    assert_eq!(file.read_at(&mut byte, at).unwrap(), 1, "{expected}");
                    assert_eq!(byte[0], expected);
                }
                assert_eq!(file.read_at(&mut byte, end).unwrap(), 0, "{expected}");
            }
        };
        let mut end = length as u64;
        look(0, end);
        for round in 1..=20_u8 {
            let writer = [a, b][usize::from(round) % 2];
            let mut options = OpenOptions::new();
            match round % 5 {
                // It grows.
                0 => {
                    let mut file = options.append(true).open(writer.join(&name)).unwrap();
                    file.write_all(&[round; 5_000]).unwrap();
                    end += 5_000;
                }
                // It shrinks.
                1 if end > 6_000 => {
                    end -= 6_000;
                    let file = options.write(true).open(writer.join(&name)).unwrap();
                    file.set_len(end).unwrap();
                }
                _ => {}
            }
            let file = OpenOptions::new().write(true).open(writer.join(&name));
            let file = file.unwrap();
            for at in [0, end - 1] {
                file.write_all_at(&[round], at).unwrap();
            }
            // With and without an open writer.
            if round % 2 == 0 {
                drop(file);
                look(round, end);
            } else {
                look(round, end);
                drop(file);
            }
        }
    }
    cluster.stop();
}
