//! The simulated cluster, seed by seed: servers, clients, disks and connections fail while programs work.

use gupfs_sim::{cluster, seeds};

/// Minimum count of each rare event in a run of the usual length.
const RARE: [(&str, u64); 48] = [
    ("rebalance that moved files", 30),
    ("drain that moved files", 30),
    ("answered change resent to the same instance", 4),
    ("capability of a former lease holder refused", 200),
    ("answered change resent to a later instance", 15),
    ("client partitioned from all servers", 8),
    ("clock jump", 15),
    ("concurrent write lease granted", 500),
    ("crash during recovery", 20),
    ("leave out callback", 50),
    ("member left out by its writer", 50),
    ("resync of a member", 50),
    ("network partition", 30),
    ("network partition in one direction", 60),
    ("expired session capability refused", 30),
    ("failed sync of an object server", 8),
    ("failed sync of the metadata server", 10),
    ("forged request refused", 250),
    ("fsync that reported a loss", 8),
    ("full disk", 20),
    ("checked history", 50),
    ("kill of a client", 40),
    ("read of another program's bytes", 200),
    (
        "object server learned of ended sessions before it served",
        15,
    ),
    ("object write delivered twice", 40),
    ("power loss of a client and an object server", 2),
    ("power loss of an object server", 15),
    ("power loss of the metadata server", 20),
    (
        "power loss of the metadata server while all clients stay",
        8,
    ),
    (
        "power loss of the metadata server while a client is absent",
        2,
    ),
    (
        "power loss of the metadata server that undid nothing of a program",
        20,
    ),
    ("read of a file without a name", 40),
    ("callback crossed a restart of the metadata server", 30),
    ("callback overtaken", 50),
    ("callback reply overtaken", 50),
    ("cluster whose boot clocks run at different rates", 10),
    ("freeze of a client", 20),
    ("freeze of a client beyond its term", 15),
    ("metadata reply overtaken", 400),
    ("metadata request overtaken", 400),
    ("object request overtaken", 400),
    ("renewed session capability", 1_000),
    ("request of an ended session refused", 200),
    ("request in a wrong role refused", 100),
    ("session ended", 8),
    ("fsync of another program's bytes", 100),
    ("torn log record", 1),
    ("unsynced bytes at a power loss", 200),
];

/// Seeds whose only fault is a full disk, and whose clients write behind: the disks are small, and a client fills them.
#[test]
fn reserved_space_is_there_when_a_client_has_filled_the_disks() {
    let seed_of = |index| 18 + 50 * index;
    let run = |index, verbose| cluster::run(seed_of(index), verbose);
    seeds::run_each_twice(20, run).require_minimums(&[
        ("small disks filled by a client", 40),
        ("write refused by a small disk", 100),
        ("write into reserved space of a full disk", 20),
    ]);
}

/// Minimum count of each rare event in a run of the usual length of seeds with one fault at a time.
const RARE_ONE_AT_A_TIME: [(&str, u64); 8] = [
    ("member left out by its writer", 50),
    ("member full again", 50),
    ("resync of a member cut short", 1),
    ("both members of a stripe stale in turn", 50),
    ("requests left waiting", 10),
    ("stop of an object server announced", 10),
    ("rotten bit", 30),
    ("power loss of an object server", 20),
];

/// Mirrored files while one server, disk, link or client fails at a time, and the next when every stripe has all its members again: no call
/// fails, no answered byte is lost, all members are equal after each fault.
#[test]
fn mirrored_files_outlive_each_single_fault() {
    let total = seeds::run_each_twice(14, cluster::run_one_fault_at_a_time);
    total.require_minimums(&RARE_ONE_AT_A_TIME);
}

/// Seeds that have found errors which the others here did not.
#[test]
fn seeds_that_have_found_errors_find_none() {
    const SEEDS: [u64; 7] = [
        562,  // a sync did not say why a member could not be left out
        756,  // the check did not know that an isolated client loses its last writes
        1036, // a read got bytes from before a power loss, while the member became stale
        1255, // a full disk kept a failed sync from being recorded
        1254, // the owner epoch began anew when a log's newest segment had no record
        3017, // a request with credentials that are taken for expired ended with that error instead of a timeout
        3994, // a resync copied bytes that its source lost in a power loss afterwards
    ];
    seeds::run_each_twice(SEEDS.len() as u64, |index, verbose| {
        cluster::run(SEEDS[index as usize % SEEDS.len()], verbose)
    });
}

#[test]
fn the_cluster_keeps_its_promises_under_any_faults() {
    seeds::run_each_twice(130, cluster::run).require_minimums(&RARE);
}

/// Seeds with copies that have found errors which the others here did not.
#[test]
fn seeds_with_copies_that_have_found_errors_find_none() {
    const SEEDS: [u64; 4] = [
        79, // the check did not know that a link of a dead client may be made between a listing and its attributes
        178, // a copy that was struck twice, and counted again in between, got no records although it counted
        211, // a server that stopped in order welcomed a client whose handshake was under way, and refused its requests
        213, // the order of waiters for the work on a restarted target did not repeat
    ];
    seeds::run_each_twice(SEEDS.len() as u64, |index, verbose| {
        cluster::run_with_copies(SEEDS[index as usize % SEEDS.len()], verbose)
    });
}

/// Minimum count of each rare event in a run of the usual length of seeds whose metadata has copies.
const RARE_WITH_COPIES: [(&str, u64); 15] = [
    ("take-over by a copy", 60),
    ("owner elected by what the logs have", 15),
    ("orderly hand-over", 8),
    ("deposed owner that lived", 10),
    ("copy struck", 60),
    ("copy that rejoined", 100),
    ("snapshot for a copy", 80),
    ("power loss of all copies", 10),
    ("power loss of a copy", 10),
    ("failed sync of a copy", 10),
    ("directory of a copy lost", 3),
    ("freeze of a copy", 30),
    ("partition between copies", 40),
    ("copy cut off from the arbiter", 20),
    ("arbiter away", 60),
];

/// The metadata has copies on three hosts, and programs see a pause when the owner fails: no call fails, and nothing that was answered is lost
/// while a copy that counts keeps its memory.
#[test]
fn the_cluster_keeps_its_promises_while_copies_take_over() {
    // With one seed the log of the copies is shown, too.
    if std::env::var("GUPFS_SEED").is_ok() {
        let _ = tracing_subscriber::fmt()
            .without_time()
            .with_ansi(false)
            .with_env_filter("gupfs_copies=info")
            .try_init();
    }
    let total = seeds::run_each_twice(40, cluster::run_with_copies);
    total.require_minimums(&RARE_WITH_COPIES);
}
