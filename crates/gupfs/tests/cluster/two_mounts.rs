//! Two mounts show the same state, as two processes on one host do.

use crate::running::{can_mount, gupfs};
use crate::test_cluster::{TestCluster, text};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};

#[test]
fn changes_of_one_mount_are_visible_on_the_other_at_once() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(2, 2);
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    // Inline, larger, and larger than the first component; each is read through an open handle.
    fs::write(a.join("f"), "one").unwrap();
    let mut reader = File::open(b.join("f")).unwrap();
    let mut seen = String::new();
    reader.read_to_string(&mut seen).unwrap();
    assert_eq!(seen, "one");
    for len in [10, 4_096, 100_000, 6 << 20, 3, 0, 70_000] {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
        fs::write(a.join("f"), &bytes).unwrap();
        assert_eq!(fs::metadata(b.join("f")).unwrap().len(), len as u64);
        let mut seen = Vec::new();
        reader.rewind().unwrap();
        reader.read_to_end(&mut seen).unwrap();
        assert!(seen == bytes, "{len} bytes");
    }
    drop(reader);
    // A writer that keeps the file open: the other mount sees each write.
    let writer = File::create(a.join("w")).unwrap();
    for round in 1..20u64 {
        writer
            .write_at(&[round as u8; 5_000], round * 5_000)
            .unwrap();
        assert_eq!(
            fs::metadata(b.join("w")).unwrap().len(),
            (round + 1) * 5_000
        );
        let mut one = [0; 1];
        let other = File::open(b.join("w")).unwrap();
        other
            .read_exact_at(&mut one, round * 5_000 + 4_999)
            .unwrap();
        assert_eq!(one[0], round as u8);
    }
    // Names.
    fs::rename(a.join("w"), a.join("v")).unwrap();
    assert!(fs::metadata(b.join("w")).is_err());
    fs::hard_link(b.join("v"), b.join("u")).unwrap();
    assert_eq!(fs::metadata(a.join("v")).unwrap().nlink(), 2);
    fs::create_dir(b.join("d")).unwrap();
    assert!(fs::remove_dir(a.join("d")).is_ok());
    assert!(File::create(b.join("d/x")).is_err());
    // A file that one mount has open and the other removes exists until it is closed.
    fs::remove_file(b.join("u")).unwrap();
    fs::remove_file(b.join("v")).unwrap();
    writer.write_at(b"!", 99).unwrap();
    assert_eq!(writer.metadata().unwrap().len(), 100_000);
    let held = File::open(format!("/proc/self/fd/{}", writer.as_raw_fd())).unwrap();
    let mut last = [0; 1];
    held.read_exact_at(&mut last, 99).unwrap();
    assert_eq!(&last, b"!");
    drop((writer, held));
    cluster.wait_until("purged", |status| status["mds"]["purging"] == 0);
    cluster.stop();
}

#[test]
fn appends_of_two_mounts_neither_overlap_nor_get_lost() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(2, 2);
    const LINES: usize = 150;
    std::thread::scope(|scope| {
        for (number, mount) in cluster.mounts.iter().enumerate() {
            scope.spawn(move || {
                for line in 0..LINES {
                    let mut log = OpenOptions::new();
                    let mut log = log
                        .create(true)
                        .append(true)
                        .open(mount.at.join("log"))
                        .unwrap();
                    // Of many lengths, so that the file spills in between.
                    let text = format!("{number} {line} {}\n", "x".repeat(line));
                    log.write_all(text.as_bytes()).unwrap();
                }
            });
        }
    });
    let log = fs::read_to_string(cluster.mounts[0].at.join("log")).unwrap();
    assert_eq!(
        log,
        fs::read_to_string(cluster.mounts[1].at.join("log")).unwrap()
    );
    for number in 0..2 {
        let prefix = format!("{number} ");
        let lines: Vec<&str> = log
            .lines()
            .filter(|line| line.starts_with(&prefix))
            .collect();
        assert_eq!(lines.len(), LINES);
        for (line, printed) in lines.iter().enumerate() {
            assert_eq!(*printed, format!("{number} {line} {}", "x".repeat(line)));
        }
    }
    cluster.stop();
}

#[test]
fn an_ost_that_is_added_serves_at_once() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 1);
    let added = cluster.add(&cluster.osts(0).join("disk2"));
    assert!(
        String::from_utf8_lossy(&added.stdout).contains("is now ost2"),
        "{added:?}"
    );
    cluster.wait_until("used", |status| {
        status["mds"]["targets"][2]["usable"] == true
    });
    let mount = &cluster.mounts[0].at;
    let set = gupfs([
        "layout",
        "set",
        "--count",
        "all",
        "--first-component",
        "0",
        &text(mount),
    ]);
    assert!(set.status.success(), "{set:?}");
    fs::write(mount.join("wide"), vec![5; 8 << 20]).unwrap();
    let layout = gupfs(["layout", "get", "--json", &text(&mount.join("wide"))]);
    let layout: serde_json::Value = serde_json::from_slice(&layout.stdout).unwrap();
    let objects = layout["file"]["components"][0]["objects"]
        .as_array()
        .unwrap();
    assert_eq!(objects.len(), 3, "{layout:#}");
    // A directory is not added twice, and a directory with files is not added at all.
    let again = cluster.add(&cluster.osts(0).join("disk2"));
    assert_eq!(again.status.code(), Some(2), "{again:?}");
    cluster.stop();
}
