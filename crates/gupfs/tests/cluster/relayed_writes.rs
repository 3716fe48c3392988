//! Writes of mirrored files that the object server of the first copy relays to the other one.

use crate::mirrored_files::{
    check, content, set_mirrored, wait_until_all_targets_are_up, wait_until_full, write,
};
use crate::running::can_mount;
use crate::test_cluster::TestCluster;
use rustix::process::Signal;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A cluster of two object servers, and a mount that relays writes also to servers on its own host.
fn cluster() -> (TestCluster, PathBuf) {
    let mut cluster = TestCluster::new(2, 1);
    let config = cluster.root().join("relay.toml");
    fs::write(&config, "[mount]\nrelay = \"always\"\n").unwrap();
    let relaying = cluster.mount_with(&["--config", config.to_str().unwrap()]);
    let dir = relaying.join("kept");
    fs::create_dir(&dir).unwrap();
    set_mirrored(&dir);
    wait_until_all_targets_are_up(&dir);
    (cluster, dir)
}

fn relayed(mount: &Path) -> u64 {
    let status = TestCluster::status_of(mount.parent().unwrap());
    let text = status.to_string();
    let (_, after) = text.split_once("\"writes_relayed\":").expect("a counter");
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

#[test]
fn relayed_writes_reach_both_copies_and_the_loss_of_either_server_costs_no_byte() {
    if !can_mount() {
        return;
    }
    let (mut cluster, dir) = cluster();
    let path = dir.join("f");
    let seen = cluster.mounts[0].at.join("kept/f");
    let file = File::create_new(&path).unwrap();
    let before = relayed(&dir);
    write(&file, 0..50);
    assert!(relayed(&dir) > before, "the object servers relay");
    check(&seen, 50);
    for lost in [0, 1] {
        cluster.osses[lost].kill();
        let longest = write(&file, 50..80);
        assert!(longest < Duration::from_secs(8), "{longest:?}");
        file.sync_all().unwrap();
        check(&path, 80);
        check(&seen, 80);
        cluster.osses[lost].start_again();
        // Also a file that stays open for writing is resynced.
        wait_until_full(&path);
    }
    drop(file);
    cluster.stop();
}

#[test]
fn what_a_frozen_server_relays_late_undoes_no_later_write() {
    if !can_mount() {
        return;
    }
    let (mut cluster, dir) = cluster();
    let path = dir.join("f");
    let seen = cluster.mounts[0].at.join("kept/f");
    write(&File::create_new(&path).unwrap(), 0..8);
    let records = 8u64;
    let mut version = 100;
    for round in 0..2 {
        let frozen = &cluster.osses[round];
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let begun = Instant::now();
        let mut is_frozen = false;
        // The same bytes again and again, before, while and after the server is frozen.
        while begun.elapsed() < Duration::from_secs(9) {
            let elapsed = begun.elapsed();
            let should_be = (1..7).contains(&elapsed.as_secs());
            if should_be != is_frozen {
                frozen.signal(if should_be {
                    Signal::STOP
                } else {
                    Signal::CONT
                });
                is_frozen = should_be;
            }
            version += records;
            for record in 0..records {
                let bytes = content(version + record);
                let at = record * bytes.len() as u64;
                file.write_all_at(&bytes, at).unwrap();
            }
        }
        file.sync_all().unwrap();
        drop(file);
        wait_until_full(&path);
        let expected: Vec<u8> = (0..records).flat_map(|at| content(version + at)).collect();
        for away in [0, 1] {
            cluster.osses[away].kill();
            assert!(
                fs::read(&seen).unwrap() == expected,
                "without server {away}"
            );
            cluster.osses[away].start_again();
            wait_until_full(&path);
        }
        wait_until_all_targets_are_up(&dir);
    }
    cluster.stop();
}
