//! Random lives of the real client and servers.

use gupfs_sim::{seeds, whole};

#[test]
fn whatever_happens_to_the_disks_what_was_promised_is_kept() {
    let total = seeds::each_twice(60, whole::run);
    total.expect(&[]);
}
