//! An OST is added to full ones: a rebalance evens out their use while programs read and write, and every byte is where its layout says.

use crate::converted::StopOnDrop;
use crate::full_disk::SmallDisk;
use crate::lost_osts::osts_of;
use crate::mirrored_files::{check, wait_until_all_targets_are_up, write};
use crate::running::{can_mount, command, gupfs};
use crate::scrubbed::object_files;
use crate::test_cluster::{TestCluster, text};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Records of each file: more than the first component of a layout.
const RECORDS: u64 = 90;

fn rebalance(cluster: &TestCluster, more: &[&str]) -> Output {
    let key = cluster.key();
    let args = ["rebalance", "--mds", &cluster.at, "--key", &key];
    command().args(args).args(more).output().unwrap()
}

fn state_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// A cluster of two object servers. Both OSTs of the second are on a disk of their own, which is empty.
struct GrownCluster {
    cluster: TestCluster,
    _disks: [SmallDisk; 2],
    /// The OSTs on the full disk, and those on the empty one.
    full: Vec<u64>,
    empty: Vec<u64>,
    files: Vec<PathBuf>,
}

impl GrownCluster {
    fn new(files: usize, mounts: usize) -> GrownCluster {
        let disks = [SmallDisk::make(700), SmallDisk::make(700)];
        let mut cluster = TestCluster::with_objects(disks[0].at.clone(), 1, mounts);
        let at = cluster.mounts[0].at.clone();
        wait_until_all_targets_are_up(&at);
        let names = (0..files).map(|i| PathBuf::from(format!("f{i}")));
        let names: Vec<PathBuf> = names.collect();
        for name in &names {
            let file = File::create_new(at.join(name)).unwrap();
            write(&file, 0..RECORDS);
            file.sync_all().unwrap();
        }
        let other = disks[1].at.join("osts1");
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&other, cluster.osts(1)).unwrap();
        cluster.add_oss();
        wait_until_all_targets_are_up(&at);
        GrownCluster {
            full: osts_of(&cluster, 0),
            empty: osts_of(&cluster, 1),
            _disks: disks,
            cluster,
            files: names,
        }
    }
}

/// Used bytes of the fullest and of the emptiest volume, in parts of a hundred.
fn spread(state: &Value) -> (f64, f64) {
    let volumes = state["volumes"].as_array().unwrap();
    let of = |volume: &Value| {
        volume["used"].as_f64().unwrap() * 100.0 / volume["total"].as_f64().unwrap()
    };
    let ratios = volumes.iter().map(of);
    (
        ratios.clone().fold(0.0, f64::max),
        ratios.fold(100.0, f64::min),
    )
}

/// (OST, file of its object) for each object that the layout names, and the number of files with objects of the inode on the disks.
fn objects_of(cluster: &TestCluster, path: &Path) -> (Vec<u64>, usize) {
    let get = command()
        .args(["layout", "get", "--json"])
        .arg(path)
        .output();
    let layout: Value = serde_json::from_slice(&get.unwrap().stdout).unwrap();
    let components = layout["file"]["components"].as_array().unwrap();
    let objects = (components.iter()).flat_map(|it| it["objects"].as_array().unwrap());
    let osts = objects.map(|object| object["ost"].as_u64().unwrap());
    let ino = fs::metadata(path).unwrap().ino();
    let stored = (0..2).map(|oss| object_files(cluster, oss, ino).len());
    (osts.collect(), stored.sum())
}

fn rewrite(path: &Path, stop: &AtomicBool) -> u64 {
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        write(&file, 3..40);
        file.sync_all().unwrap();
        drop(file);
        check(path, RECORDS);
        rounds += 1;
        std::thread::sleep(Duration::from_millis(100));
    }
    rounds
}

#[test]
fn the_use_of_a_grown_cluster_becomes_even_while_programs_read_and_write_and_no_byte_is_lost() {
    if !can_mount() {
        return;
    }
    let mut grown = GrownCluster::new(30, 2);
    let mounts = grown.cluster.mount_points();
    let (a, b) = (&mounts[0], &mounts[1]);
    // What is being written stays.
    let held = OpenOptions::new()
        .write(true)
        .open(a.join(&grown.files[0]))
        .unwrap();
    write(&held, 0..1);
    let before = objects_of(&grown.cluster, &a.join(&grown.files[0])).0;
    let stop = AtomicBool::new(false);
    let files = grown.files.clone();
    std::thread::scope(|scope| {
        let _stopping = StopOnDrop(&stop);
        let writers = [1, 2].map(|n| {
            let (path, stop) = (b.join(&files[n]), &stop);
            scope.spawn(move || rewrite(&path, stop))
        });
        let reader = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                files[3..]
                    .iter()
                    .for_each(|name| check(&b.join(name), RECORDS));
            }
        });
        // Slow enough to be killed in the middle.
        let begun = rebalance(&grown.cluster, &["--rate", "20MiB", "--json"]);
        assert!(begun.status.success(), "{begun:?}");
        let (most, least) = spread(&state_of(&begun));
        assert!(most - least > 20.0, "{most} {least}");
        for _ in 0..3 {
            grown.cluster.wait_until("under way", |status| {
                let rebalance = &status["mds"]["rebalance"];
                rebalance["files_moved"].as_u64() > Some(0)
                    && rebalance["bytes_left"].as_u64() > Some(0)
            });
            grown.cluster.mds.kill();
            grown.cluster.mds.start_again();
        }
        let ended = rebalance(&grown.cluster, &["--rate", "0", "--wait", "--json"]);
        let state = state_of(&ended);
        assert_eq!(ended.status.code(), Some(0), "{state:#}");
        assert_eq!(state["is_even"], true, "{state:#}");
        let (most, least) = spread(&state);
        assert!(most - least < 7.0, "{most} {least}");
        stop.store(true, Ordering::Relaxed);
        assert!(writers.into_iter().all(|writer| writer.join().unwrap() > 0));
        reader.join().unwrap();
    });
    assert_eq!(objects_of(&grown.cluster, &a.join(&files[0])).0, before);
    drop(held);
    for mount in [a, b] {
        files
            .iter()
            .for_each(|name| check(&mount.join(name), RECORDS));
    }
    // The former objects are gone, and what a killed server left behind is, too.
    let is_purged =
        |status: &Value| status["mds"]["purging"] == 0 && status["mds"]["sweep"]["left"] == 0;
    grown.cluster.wait_until("freed", is_purged);
    let mut moved = 0;
    for name in &files {
        let (osts, stored) = objects_of(&grown.cluster, &a.join(name));
        assert_eq!(stored, osts.len(), "{name:?} on {osts:?}");
        moved += osts.iter().filter(|ost| grown.empty.contains(ost)).count();
        let is_known = |ost: &u64| grown.empty.contains(ost) || grown.full.contains(ost);
        assert!(osts.iter().all(is_known), "{osts:?}");
    }
    assert!(moved > 10, "{moved}");
    // Nothing is left to do, and nothing is wrong.
    let again = state_of(&rebalance(&grown.cluster, &["--wait", "--json"]));
    assert_eq!(again["is_even"], true, "{again:#}");
    let shown = gupfs(["status", &text(&grown.cluster.store())]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("the use of the OSTs is even"), "{shown}");
    grown.cluster.end_all();
    let store = text(&grown.cluster.store());
    let osts = [0, 1].map(|oss| text(&grown.cluster.osts(oss)));
    let checked = command()
        .args([
            "check", &store, "--ost", &osts[0], "--ost", &osts[1], "--data",
        ])
        .output()
        .unwrap();
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
}

#[test]
fn a_rebalance_keeps_to_its_rate_pauses_and_is_cancelled() {
    if !can_mount() {
        return;
    }
    let mut grown = GrownCluster::new(12, 1);
    let a = grown.cluster.mounts[0].at.clone();
    let none = rebalance(&grown.cluster, &["--pause"]);
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    let begun = rebalance(
        &grown.cluster,
        &["--rate", "4MiB", "--within", "1", "--json"],
    );
    let begun = state_of(&begun);
    assert_eq!(
        (&begun["rate"], &begun["within"]),
        (&(4 << 20).into(), &1.into())
    );
    let copied = |status: &Value| status["mds"]["rebalance"]["bytes_copied"].as_u64().unwrap();
    grown.cluster.wait_until("under way", |status| {
        let rebalance = &status["mds"]["rebalance"];
        copied(status) > 8 << 20 && rebalance["seconds_left"].as_u64() > Some(0)
    });
    let from = copied(&grown.cluster.status());
    std::thread::sleep(Duration::from_secs(4));
    let to = copied(&grown.cluster.status());
    // Pieces of 4 MiB.
    assert!(to - from <= 24 << 20, "{}", to - from);
    let shown = gupfs(["status", &text(&grown.cluster.store())]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("at no more than 4.00 MiB/s"), "{shown}");
    assert!(shown.contains("remaining time about"), "{shown}");

    let paused = state_of(&rebalance(&grown.cluster, &["--pause", "--json"]));
    assert_eq!(paused["is_paused"], true);
    std::thread::sleep(Duration::from_secs(2));
    // Also after a restart in order, which leaves nothing behind.
    assert_eq!(grown.cluster.mds.stop(), 0);
    grown.cluster.mds.start_again();
    std::thread::sleep(Duration::from_secs(4));
    let status = grown.cluster.status();
    assert_eq!(status["mds"]["rebalance"]["is_paused"], true, "{status:#}");
    assert_eq!(copied(&status), 0);
    let resumed = state_of(&rebalance(&grown.cluster, &["--resume", "--json"]));
    assert_eq!(resumed["is_paused"], false);
    grown
        .cluster
        .wait_until("going on", |status| copied(status) > 0);
    let cancelled = state_of(&rebalance(&grown.cluster, &["--cancel", "--json"]));
    assert_eq!(cancelled["since"], Value::Null);
    std::thread::sleep(Duration::from_secs(2));
    let before = copied(&grown.cluster.status());
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(copied(&grown.cluster.status()), before);
    for name in &grown.files {
        check(&a.join(name), RECORDS);
    }
    grown.cluster.stop();
}

#[test]
fn a_rebalance_that_can_move_nothing_says_why() {
    if !can_mount() {
        return;
    }
    let mut grown = GrownCluster::new(24, 1);
    let a = grown.cluster.mounts[0].at.clone();
    let held = grown.files.iter().map(|name| {
        let file = OpenOptions::new().write(true).open(a.join(name)).unwrap();
        write(&file, 0..1);
        file
    });
    let held: Vec<File> = held.collect();
    let ended = rebalance(&grown.cluster, &["--wait", "--json"]);
    let state = state_of(&ended);
    assert_eq!(ended.status.code(), Some(1), "{state:#}");
    let why = state["why"].as_str().unwrap();
    assert!(why.contains("files could not be moved (inode"), "{why}");
    assert!(why.contains("the file is being written"), "{why}");
    drop(held);
    // An OST that is down takes no part, and is named.
    grown.cluster.osses[1].kill();
    let is_down = |status: &Value| {
        let targets = status["mds"]["targets"].as_array().unwrap();
        targets.iter().filter(|it| it["is_up"] == false).count() == 2
    };
    grown.cluster.wait_until("down", is_down);
    let waits = |status: &Value| {
        let why = status["mds"]["rebalance"]["why"].as_str();
        why.is_some_and(|why| why.contains("is not up"))
    };
    let begun = rebalance(&grown.cluster, &[]);
    assert!(begun.status.success(), "{begun:?}");
    grown.cluster.wait_until("waiting", waits);
    grown.cluster.osses[1].start_again();
    let ended = rebalance(&grown.cluster, &["--wait", "--json"]);
    assert_eq!(state_of(&ended)["is_even"], true, "{ended:?}");
    for name in &grown.files {
        check(&a.join(name), RECORDS);
    }
}
