//! Five clients and a shard.

use gupfs_sim::{seeds, town};

#[test]
fn every_answer_is_the_models_whatever_a_crash_takes_away() {
    let total = seeds::each_twice(500, town::run);
    total.expect(&[]);
}
