//! Many names through one mount: memory stays bounded, and no call is refused.

use crate::running::{can_mount, resident};
use crate::test_cluster::TestCluster;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// From 33,000 on they need more leases than the 2^16 of a session.
fn names() -> u64 {
    let set = std::env::var("GUPFS_CLUSTER_NAMES");
    set.map_or(10_000, |set| set.parse().unwrap())
}

const IN_A_DIRECTORY: u64 = 1_000;

/// Programs that create them.
const PROGRAMS: u64 = 4;

/// A process with its threads, buffers, and caches that are full: 2^16 inodes, 2^16 names, and the records of the metadata index.
const FIXED: u64 = 300 << 20;

/// For each inode that the kernel knows, which Linux forgets only when it needs the memory: its place in the mount's tables.
const OF_AN_INODE: u64 = 400;

fn create(mount: &Path, program: u64) {
    for dir in (0..names() / IN_A_DIRECTORY).filter(|dir| dir % PROGRAMS == program) {
        let dir = mount.join(format!("d{dir}"));
        fs::create_dir(&dir).unwrap();
        for number in 0..IN_A_DIRECTORY {
            File::create_new(dir.join(format!("f{number}"))).unwrap();
        }
    }
}

/// The number of files that a walk finds, with the attributes of each.
fn found(mount: &Path) -> u64 {
    let mut find = Command::new("find");
    let output = find
        .arg(mount)
        .args(["-name", "f*", "-size", "0", "-printf", "."]);
    let output = output.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout.len() as u64
}

#[test]
fn many_names_through_one_mount_take_bounded_memory() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 2);
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let creating = (0..PROGRAMS).map(|program| scope.spawn(move || create(a, program)));
        let creating: Vec<_> = creating.collect();
        creating.into_iter().for_each(|it| it.join().unwrap());
    });
    eprintln!("{} names after {:?}", names(), begun.elapsed());
    for mount in [a, b, a] {
        let begun = Instant::now();
        assert_eq!(found(mount), names());
        eprintln!("found through '{}': {:?}", mount.display(), begun.elapsed());
    }
    let leases = cluster.status()["mds"]["leases"].clone();
    let [mds, of_a, of_b] = [
        &cluster.mds,
        &cluster.mounts[0].daemon,
        &cluster.mounts[1].daemon,
    ]
    .map(|daemon| resident(daemon.pid()));
    eprintln!(
        "metadata server {} MiB, mounts {} and {} MiB; leases: {leases}",
        mds >> 20,
        of_a >> 20,
        of_b >> 20
    );
    assert!(mds < FIXED, "the metadata server: {mds}");
    for mount in [of_a, of_b] {
        assert!(mount < FIXED + names() * OF_AN_INODE, "a mount: {mount}");
    }
    // Another mount's change of a name whose lease was displaced long ago.
    fs::rename(b.join("d0/f0"), b.join("d0/moved")).unwrap();
    assert!(a.join("d0/moved").exists() && !a.join("d0/f0").exists());
    cluster.stop();
}
