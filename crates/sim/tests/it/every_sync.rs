//! The power goes, or the process dies, at every single sync of a workload.

use gupfs_sim::{seeds, whole};

/// Minimum count of each rare event in a run of the usual length.
const RARE: [(&str, u64); 5] = [
    ("crash at a sync", 120),
    ("purge or cut interrupted by a crash", 10),
    ("orphan removed at recovery", 40),
    ("torn log record", 2),
    ("index behind the log at recovery", 150),
];

#[test]
fn dying_at_any_sync_breaks_no_promise() {
    seeds::each_twice(4, whole::script::every_sync).expect(&RARE);
}
