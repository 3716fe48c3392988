//! The power of one server is cut while clients live on.

use crate::images::Images;
use crate::load;
use crate::running::can_mount;
use crate::town::Town;
use std::time::Duration;

fn cuts() -> usize {
    let set = std::env::var("GUPFS_CLUSTER_CUTS");
    set.map_or(5, |set| set.parse().unwrap())
}

#[test]
fn power_cuts_of_the_metadata_server_undo_nothing_that_was_answered() {
    if !can_mount() {
        return;
    }
    let mut disk = Images::make();
    let mut town = Town::with_store(disk.store(), 1, 2);
    let mounts: Vec<_> = town.mounts.iter().map(|mount| mount.at.clone()).collect();
    let mut made_again = 0;
    let journals = load::while_working(&mounts, || {
        for cut in 0..cuts() {
            std::thread::sleep(Duration::from_millis(300 + (cut as u64 * 377) % 900));
            town.mds.kill();
            disk.lose();
            town.mds.start_again();
            town.wait_until("back", |status| {
                status["mds"]["missing"]
                    .as_array()
                    .is_some_and(Vec::is_empty)
            });
            made_again += town.status()["mds"]["made_again"].as_u64().unwrap();
        }
    });
    let done: u64 = journals.iter().map(|journal| journal.operations).sum();
    eprintln!(
        "{} cuts, {done} operations, {made_again} of them made again",
        cuts()
    );
    assert!(made_again > 0, "no cut undid anything");
    town.stop();
    drop(disk);
}
