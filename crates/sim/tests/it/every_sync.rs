//! The power goes, or the process dies, at every single sync of a workload.

use gupfs_sim::{seeds, whole};

#[test]
fn dying_at_any_sync_breaks_no_promise() {
    let total = seeds::each_twice(4, whole::script::every_sync);
    total.expect(&[]);
}
