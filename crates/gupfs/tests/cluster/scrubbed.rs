//! Damage on a disk: a scrub finds it, and repairs it from the other copy.

use crate::mirrored_files::{check, set_mirrored, stale_objects, write};
use crate::running::{can_mount, command};
use crate::test_cluster::{TestCluster, text};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

const RECORDS: u64 = 30;

/// The files with the bytes of this inode's objects, on one object server.
pub fn object_files(cluster: &TestCluster, oss: usize, ino: u64) -> Vec<PathBuf> {
    fn below(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => below(&path, found),
                false => found.push(path),
            }
        }
    }
    let mut all = Vec::new();
    for disk in ["disk0", "disk1"] {
        below(&cluster.osts(oss).join(disk).join("objects"), &mut all);
    }
    let prefix = format!("{ino:x}.");
    let is_its = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(&prefix)
    };
    all.retain(is_its);
    all
}

/// Turns some bytes over.
fn damage(path: &Path, places: &[u64]) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    for at in places {
        let mut byte = [0];
        file.read_exact_at(&mut byte, *at).unwrap();
        file.write_all_at(&[!byte[0]], *at).unwrap();
    }
}

fn scrub(cluster: &TestCluster, more: &[&str]) -> Output {
    let key = cluster.key();
    let mut scrub = command();
    scrub.args(["scrub", "--mds", &cluster.at, "--key", &key]);
    scrub.args(more).output().unwrap()
}

fn found_by(cluster: &TestCluster, code: i32) -> serde_json::Value {
    let output = scrub(cluster, &["--wait", "--json"]);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Stops the object servers in order, so that all checksums are recorded, and starts them again after `meanwhile`.
fn with_stopped_servers(cluster: &mut TestCluster, meanwhile: impl FnOnce(&TestCluster)) {
    for oss in &mut cluster.osses {
        assert_eq!(oss.stop(), 0);
    }
    meanwhile(cluster);
    for oss in &mut cluster.osses {
        oss.start_again();
    }
    wait_until_all_serve(cluster);
}

fn wait_until_all_serve(cluster: &TestCluster) {
    cluster.wait_until("all serve", |status| {
        let targets = status["mds"]["targets"].as_array().unwrap();
        targets.iter().all(|target| target["is_up"] == true)
    });
}

#[test]
fn damage_is_repaired_from_the_other_copy_and_named_where_there_is_none() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 2);
    let [at, other] = &cluster.mount_points()[..] else {
        panic!("two mounts")
    };
    let dir = at.join("mirrored");
    fs::create_dir(&dir).unwrap();
    set_mirrored(&dir);
    // Otherwise a copy may be made later.
    wait_until_all_serve(&cluster);
    let paths = ["flipped", "cut", "gone"].map(|name| dir.join(name));
    let plain = at.join("plain");
    let mut inodes = Vec::new();
    for path in paths.iter().chain([&plain]) {
        let file = File::create(path).unwrap();
        write(&file, 0..RECORDS);
        file.sync_all().unwrap();
        inodes.push(file.metadata().unwrap().ino());
    }
    let in_order = found_by(&cluster, 0);
    assert_eq!(in_order["blocks_repaired"], 0, "{in_order}");
    // Both copies of three files, and one of the fourth.
    let bytes = 7 * RECORDS * 100_000;
    assert!(in_order["bytes_verified"].as_u64().unwrap() >= bytes);

    with_stopped_servers(&mut cluster, |cluster| {
        // Each copy has damage, in different blocks.
        let places = &[7, 5_000, 1 << 20];
        damage(&object_files(cluster, 0, inodes[0])[0], places);
        damage(&object_files(cluster, 1, inodes[0])[0], &[900_000]);
        let cut = &object_files(cluster, 1, inodes[1])[0];
        let file = OpenOptions::new().write(true).open(cut).unwrap();
        file.set_len(1_000_000).unwrap();
        fs::remove_file(&object_files(cluster, 0, inodes[2])[0]).unwrap();
        // Only one of them has it.
        for oss in 0..2 {
            for path in object_files(cluster, oss, inodes[3]) {
                damage(&path, &[50_000]);
            }
        }
    });
    // Programs get good bytes before anything is repaired.
    check(&dir.join("flipped"), RECORDS);
    let found = found_by(&cluster, 1);
    // (A read may have had some of them repaired before.)
    assert_eq!(found["blocks_repaired"], 4, "{found}");
    assert_eq!(found["members_renewed"], 2, "{found}");
    assert_eq!(
        (&found["damaged"], &found["files_left"]),
        (&1.into(), &0.into())
    );
    let text = scrub(&cluster, &["--wait"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("damage that nothing can repair"), "{text}");
    let status = command()
        .args(["status", &crate::test_cluster::text(&cluster.store())])
        .output()
        .unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    let named = format!("inode {}: object {:x}.", inodes[3], inodes[3]);
    assert!(status.contains(&named), "{status}");

    let begun = Instant::now();
    while paths.iter().any(|path| stale_objects(path) > 0) {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "a copy is not made anew: {}",
            cluster.status()["mds"]["resync"]
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    // Either server has all of it now.
    for lost in 0..2 {
        cluster.osses[lost].kill();
        for path in &paths {
            let path = other.join(path.strip_prefix(at).unwrap());
            check(&path, RECORDS);
        }
        cluster.osses[lost].start_again();
    }
    assert!(
        fs::read(&plain).is_err(),
        "damage is never returned as data"
    );
    // A file that is written whole is in order again.
    write(
        &OpenOptions::new().write(true).open(&plain).unwrap(),
        0..RECORDS,
    );
    wait_until_all_serve(&cluster);
    let after = found_by(&cluster, 0);
    assert_eq!(after["damaged"], 0, "{after}");
    cluster.stop();
}

#[test]
fn damage_that_a_program_meets_is_repaired_without_a_scrub() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 1);
    let dir = cluster.mount_points()[0].join("mirrored");
    fs::create_dir(&dir).unwrap();
    set_mirrored(&dir);
    // Otherwise a copy may be made later.
    wait_until_all_serve(&cluster);
    let path = dir.join("file");
    let file = File::create(&path).unwrap();
    write(&file, 0..RECORDS);
    file.sync_all().unwrap();
    let ino = file.metadata().unwrap().ino();
    drop(file);
    with_stopped_servers(&mut cluster, |cluster| {
        // In neighbouring blocks: whichever copy the mount reads there, it meets damage. (It may read either, and change between two
        // reads, until it knows that both servers are back.)
        for oss in 0..2 {
            damage(
                &object_files(cluster, oss, ino)[0],
                &[200_000 + oss as u64 * 4_096],
            );
        }
    });
    check(&path, RECORDS);
    cluster.wait_until("the damage is repaired", |status| {
        let scrub = &status["mds"]["scrub"];
        scrub["blocks_repaired"] == 2 && scrub["damaged"] == 0
    });
    assert_eq!(cluster.status()["mds"]["scrub"]["passes"], 0);
    let status = String::from_utf8(
        command()
            .args(["status", &text(&cluster.store())])
            .output()
            .unwrap()
            .stdout,
    );
    let status = status.unwrap();
    assert!(status.contains("2 damaged blocks repaired"), "{status}");
    cluster.stop();
}

#[test]
fn a_scrub_tells_what_it_could_not_verify_and_refuses_wrong_rates() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 1);
    let at = cluster.mount_points()[0].clone();
    for name in 0..8 {
        fs::write(at.join(format!("file {name}")), vec![7; 100_000]).unwrap();
    }
    rustix::fs::syncfs(File::open(&at).unwrap()).unwrap();
    let begun = scrub(&cluster, &["--rate", "4MiB/s"]);
    assert!(begun.status.success(), "{begun:?}");
    let begun = String::from_utf8(begun.stdout).unwrap();
    assert!(begun.contains("The scrub has begun"), "{begun}");
    for rate in ["0", "fast", "-1"] {
        let refused = scrub(&cluster, &["--rate", rate]);
        assert_eq!(refused.status.code(), Some(2), "{rate}: {refused:?}");
    }
    assert_eq!(cluster.osses[1].stop(), 0);
    let left = found_by(&cluster, 1);
    assert!(left["files_left"].as_u64().unwrap() > 0, "{left}");
    let why = left["why"].as_str().unwrap();
    assert!(why.contains("is not up"), "{left}");
    cluster.osses[1].start_again();
    cluster.stop();
}
