//! Random lives of the real client and servers.

use gupfs_sim::{seeds, whole};

/// Minimum count of each rare event in a run of the usual length.
const RARE: [(&str, u64); 13] = [
    ("crash between mark and data", 10),
    ("crash between inode block and its first use", 15),
    ("crash in a recovery", 80),
    ("torn log record", 30),
    ("index behind the log at recovery", 700),
    ("failing sync", 40),
    ("full disk", 20),
    ("orphan removed at recovery", 1_000),
    ("purge or cut interrupted by a crash", 120),
    ("cut resumed at recovery", 30),
    ("rename over a target crossed a crash", 15),
    ("reply lost by a crash", 10),
    ("unsynced bytes at a power loss", 800),
];

#[test]
fn whatever_happens_to_the_disks_what_was_promised_is_kept() {
    seeds::each_twice(200, whole::run).expect(&RARE);
}

#[test]
fn what_is_confirmed_survives_a_power_cut() {
    let total = seeds::each_twice(20, whole::script::confirmed);
    total.expect(&[("file confirmed before a power loss", 20)]);
}

#[test]
fn what_a_power_cut_left_behind_a_files_end_stays_hidden() {
    let total = seeds::each_twice(60, whole::script::behind_the_end);
    total.expect(&[("unsynced bytes at a power loss", 60)]);
}

#[test]
fn what_a_full_disk_cut_short_is_as_it_was_told_after_a_kill() {
    let total = seeds::each_twice(30, whole::script::cut_short);
    total.expect(&[("full disk", 20)]);
}
