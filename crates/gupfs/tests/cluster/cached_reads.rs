//! Files that are open for reading only use the page cache while no mount writes them.

use crate::running::can_mount;
use crate::test_cluster::TestCluster;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// Inline data, and objects.
const LENGTHS: [usize; 2] = [3_000, 300_000];

/// READs that a mount has answered, and bytes that it has read from servers or its memory for them.
fn reads(mount: &Path) -> u64 {
    let status = TestCluster::status_of(mount);
    let operations = status["mount"]["operations"].as_array().unwrap();
    let counted = operations.iter().filter(|counted| counted[0] == "read");
    counted.map(|counted| counted[1].as_u64().unwrap()).sum()
}

#[test]
fn an_unchanged_file_is_read_once_from_the_servers() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 2);
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    for (number, length) in LENGTHS.into_iter().enumerate() {
        let name = format!("file{number}");
        fs::write(a.join(&name), vec![7; length]).unwrap();
        // The first read after a change moves the access time, so it drops what is cached.
        std::thread::sleep(Duration::from_millis(1_100));
        for mount in [b, a] {
            let path = mount.join(&name);
            for _ in 0..2 {
                assert_eq!(fs::read(&path).unwrap(), vec![7; length]);
            }
            let before = reads(mount);
            for _ in 0..20 {
                assert_eq!(fs::read(&path).unwrap(), vec![7; length]);
            }
            assert_eq!(
                reads(mount),
                before,
                "{length} bytes on {}",
                mount.display()
            );
        }
    }
    cluster.stop();
}

#[test]
fn a_descriptor_that_reads_cached_pages_shows_each_write_of_any_mount_at_once() {
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
