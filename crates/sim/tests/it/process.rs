//! Random instances of the real client and servers in one process.

use gupfs_sim::{process, seeds};

/// Minimum count of each rare event in a run of the usual length.
const RARE: [(&str, u64); 13] = [
    (
        "crash between making a region dirty and writing its data",
        10,
    ),
    ("crash between inode block and its first use", 15),
    ("crash during recovery", 80),
    ("torn log record", 30),
    ("index behind the log at recovery", 700),
    ("failed sync", 40),
    ("full disk", 20),
    ("orphan removed at recovery", 1_000),
    ("purge or truncate interrupted by a crash", 120),
    ("truncate resumed at recovery", 30),
    ("rename over a target crossed a crash", 15),
    ("reply lost by a crash", 10),
    ("unsynced bytes at a power loss", 800),
];

#[test]
fn the_servers_keep_their_promises_after_crashes_and_disk_errors() {
    seeds::run_each_twice(200, process::run).require_minimums(&RARE);
}

#[test]
fn a_confirmed_file_survives_a_power_loss() {
    let total = seeds::run_each_twice(20, process::scripts::confirmed_file);
    total.require_minimums(&[("file confirmed before a power loss", 20)]);
}

#[test]
fn bytes_that_a_power_loss_left_behind_a_files_end_are_never_read() {
    let total = seeds::run_each_twice(60, process::scripts::bytes_behind_end);
    total.require_minimums(&[("unsynced bytes at a power loss", 60)]);
}

#[test]
fn a_write_cut_short_by_a_full_disk_keeps_its_reported_size_after_a_kill() {
    let total = seeds::run_each_twice(30, process::scripts::write_cut_short);
    total.require_minimums(&[("full disk", 20)]);
}
