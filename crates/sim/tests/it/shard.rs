//! Five clients and a shard, with 1, 2 and 64 virtual shards.

use gupfs_sim::{seeds, shard};

/// Minimum count of each rare event in a run of the usual length.
const RARE: [(&str, u64); 9] = [
    ("reply lost by a crash", 500),
    ("request lost by a crash", 1_000),
    ("staged batches lost by a crash", 500),
    ("reserved numbers forgotten by a crash", 500),
    ("crash while numbers were reserved", 50),
    ("orphan removed at recovery", 500),
    ("rename over a target", 10_000),
    ("rename crossed a crash", 100),
    ("conflict refused", 100_000),
];

fn simulate(shards: u16) {
    let total = seeds::run_each_twice(170, |seed, verbose| shard::run(shards, seed, verbose));
    total.require_minimums(&RARE);
}

#[test]
fn one_virtual_shard_replies_as_the_model_across_crashes() {
    simulate(1);
}

#[test]
fn two_virtual_shards_reply_as_the_model_across_crashes() {
    simulate(2);
}

#[test]
fn sixty_four_virtual_shards_reply_as_the_model_across_crashes() {
    simulate(64);
}
