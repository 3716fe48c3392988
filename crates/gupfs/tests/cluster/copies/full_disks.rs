//! The disk of a copy of the metadata is full, then that of the owner: the others go on, and it comes back when there is space again.

use super::copied_cluster::{CopiedCluster, CopiedClusterOptions};
use crate::full_disk::SmallDisk;
use crate::load;
use crate::running::{TIMEOUT, can_mount};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A new store needs 1 GiB.
const DISK_MIB: u64 = 1_200;

/// Bytes of one change: the log is soon full.
const VALUE: usize = 60 << 10;

/// How long the disk stays full when its server is out.
const STAYS_FULL: Duration = Duration::from_secs(4);

/// No call of a program may take longer.
const PAUSE: Duration = Duration::from_secs(8);

/// Changes one attribute of a file until it is stopped; the longest time that a change took.
fn fill_the_log(mount: &Path, ends: &AtomicBool) -> Duration {
    let file = File::create_new(mount.join("with a large attribute")).unwrap();
    let mut longest = Duration::ZERO;
    let mut round = 0u8;
    while !ends.load(Relaxed) {
        round = round.wrapping_add(1);
        let begun = Instant::now();
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::fsetxattr(&file, "user.large", &[round; VALUE], flags).unwrap();
        longest = longest.max(begun.elapsed());
    }
    longest
}

/// What `gupfs mds list` says of a server.
fn listed(cluster: &CopiedCluster, server: usize) -> Option<serde_json::Value> {
    let list = cluster.list()?;
    let mut copies = list["copies"].as_array()?.clone().into_iter();
    copies.find(|copy| copy["address"] == cluster.servers[server].address)
}

fn wait_until(cluster: &CopiedCluster, what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(
            begun.elapsed() < TIMEOUT,
            "never {what}: {:?}",
            cluster.list()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Three metadata servers; the disk of this one is small.
fn with_a_small_disk(server: usize) -> Option<(CopiedCluster, SmallDisk)> {
    if !can_mount() {
        return None;
    }
    let disk = SmallDisk::make(DISK_MIB);
    let options = CopiedClusterOptions {
        stores: BTreeMap::from([(server, disk.at.join("store"))]),
        ..CopiedClusterOptions::default()
    };
    Some((CopiedCluster::start_with(2, options)?, disk))
}

/// Programs work while another program takes the space of the disk but for this rest; `happens` returns when the server is out. Then there
/// is space again.
fn fills_up(cluster: &CopiedCluster, (disk, rest): (&SmallDisk, u64), happens: impl FnOnce()) {
    let points = cluster.points();
    let ends = AtomicBool::new(false);
    let mut longest = Duration::ZERO;
    load::while_working(&points, || {
        std::thread::scope(|scope| {
            let filler = scope.spawn(|| fill_the_log(&points[0], &ends));
            let ending = load::Ends(&ends);
            let taken = disk.fill(rest);
            happens();
            std::thread::sleep(STAYS_FULL);
            fs::remove_file(taken).unwrap();
            cluster.wait_whole();
            drop(ending);
            longest = filler.join().unwrap();
        });
    });
    eprintln!("the longest change took {longest:?}");
    assert!(longest < PAUSE, "a program waited {longest:?}");
}

#[test]
fn a_copy_whose_disk_is_full_is_left_out_and_comes_back_when_there_is_space() {
    let Some((cluster, disk)) = with_a_small_disk(1) else {
        return;
    };
    assert_eq!(cluster.owner(), 0);
    fills_up(&cluster, (&disk, 0), || {
        wait_until(&cluster, "left out", || {
            listed(&cluster, 1).is_some_and(|copy| copy["standing"] != "counting")
        });
        let copy = listed(&cluster, 1).unwrap();
        let why = copy["struck"].as_str().unwrap_or_default();
        assert!(why.contains("space"), "{copy}");
        assert_eq!(cluster.owner(), 0);
    });
    cluster.stop();
    drop(disk);
}

#[test]
fn an_owner_whose_disk_is_full_is_followed_by_a_copy_and_comes_back_when_there_is_space() {
    an_owner_is_followed(0);
}

#[test]
fn an_owner_whose_disk_has_only_its_reserve_left_is_followed_by_a_copy() {
    an_owner_is_followed(64 << 20);
}

/// The owner's disk has only so many bytes left.
fn an_owner_is_followed(rest: u64) {
    let Some((cluster, disk)) = with_a_small_disk(0) else {
        return;
    };
    assert_eq!(cluster.owner(), 0);
    fills_up(&cluster, (&disk, rest), || {
        wait_until(&cluster, "followed", || cluster.owner() != 0);
    });
    cluster.stop();
    drop(disk);
}
