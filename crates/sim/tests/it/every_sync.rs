//! A process loses power or is killed at every single sync of a workload.

use gupfs_sim::{process, seeds};

/// Minimum count of each rare event in a run of the usual length.
const RARE: [(&str, u64); 5] = [
    ("crash at a sync", 120),
    ("purge or truncate interrupted by a crash", 10),
    ("orphan removed at recovery", 40),
    ("torn log record", 2),
    ("index behind the log at recovery", 150),
];

#[test]
fn a_crash_at_any_sync_breaks_no_promise() {
    seeds::run_each_twice(4, process::scripts::crash_at_every_sync).require_minimums(&RARE);
}
