//! The OSTs of an object server are drained and removed while programs write and read: the server can be switched off then, and every
//! byte is elsewhere.

use crate::full_disk::SmallDisk;
use crate::lost_osts::{osts_of, wait_until_redundant};
use crate::mirrored_files::{check, content, set_mirrored, wait_until_all_targets_are_up, write};
use crate::running::{can_mount, command, gupfs};
use crate::test_cluster::{TestCluster, text};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Records of each file: more than the first component of a layout.
const RECORDS: u64 = 60;

fn run(cluster: &TestCluster, what: &str, ost: u64, more: &[&str]) -> Output {
    let (ost, key) = (ost.to_string(), cluster.key());
    let args = ["ost", what, &ost, "--mds", &cluster.at, "--key", &key];
    command().args(args).args(more).output().unwrap()
}

fn refused(output: &Output, why: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(why), "{said}");
}

fn drained(cluster: &TestCluster, ost: u64) {
    let output = run(cluster, "drain", ost, &["--wait", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["is_drained"], true, "{said}");
}

fn files(dir: &str, count: usize) -> Vec<PathBuf> {
    let name = |i| Path::new(dir).join(format!("f{i}"));
    (0..count).map(name).collect()
}

/// Rewrites records of a file until it is told to stop, a new open for each round; returns how often.
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
fn a_drained_server_is_switched_off_and_no_byte_is_lost() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(3, 2);
    let (a, b) = (cluster.mounts[0].at.clone(), cluster.mounts[1].at.clone());
    fs::create_dir(a.join("kept")).unwrap();
    set_mirrored(&a.join("kept"));
    wait_until_all_targets_are_up(&a.join("kept"));
    fs::create_dir(a.join("plain")).unwrap();
    let (kept, plain) = (files("kept", 4), files("plain", 12));
    for path in kept.iter().chain(&plain) {
        let file = File::create_new(a.join(path)).unwrap();
        write(&file, 0..RECORDS);
    }
    let small = a.join("small");
    fs::write(&small, content(7)).unwrap();

    let osts = osts_of(&cluster, 0);
    refused(&run(&cluster, "remove", osts[0], &[]), "not being drained");
    refused(
        &run(&cluster, "drain", 99, &[]),
        "no target with this number",
    );
    // Files that stay open for writing move, too.
    let held = [&plain[0], &kept[0]].map(|path| {
        let held = OpenOptions::new().write(true).open(a.join(path)).unwrap();
        write(&held, 0..1);
        held
    });
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let rewriting = [&plain[1], &kept[1]];
        let writers = rewriting.map(|path| {
            let (path, stop) = (b.join(path), &stop);
            scope.spawn(move || rewrite(&path, stop))
        });
        let writing = held.each_ref().map(|file| {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    write(file, 0..3);
                    std::thread::sleep(Duration::from_millis(20));
                }
            })
        });
        for ost in &osts {
            let begun = run(&cluster, "drain", *ost, &[]);
            assert!(begun.status.success(), "{begun:?}");
        }
        let paused = run(&cluster, "drain", osts[1], &["--pause"]);
        assert!(paused.status.success(), "{paused:?}");
        // The drains go on after a restart of the metadata server, whose sweep for objects without a file runs at the same time.
        for _ in 0..4 {
            cluster.mds.kill();
            cluster.mds.start_again();
            std::thread::sleep(Duration::from_millis(700));
        }
        let early = run(&cluster, "remove", osts[1], &[]);
        assert!(!early.status.success(), "an OST with objects was removed");
        let resumed = run(&cluster, "drain", osts[1], &["--resume"]);
        assert!(resumed.status.success(), "{resumed:?}");
        for ost in &osts {
            drained(&cluster, *ost);
        }
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            assert!(writer.join().unwrap() > 0);
        }
        for writer in writing {
            writer.join().unwrap();
        }
    });
    for path in &kept {
        wait_until_redundant(&a.join(path), &osts);
    }
    for ost in &osts {
        let removed = run(&cluster, "remove", *ost, &[]);
        assert!(removed.status.success(), "{removed:?}");
        // Nor is it drained or removed by mistake later.
        assert!(run(&cluster, "remove", *ost, &[]).status.success());
        refused(&run(&cluster, "drain", *ost, &[]), "removed on");
    }
    cluster.osses.remove(0).kill();
    fs::remove_dir_all(cluster.osts(0)).unwrap();
    // What this mount wrote to the former OST and did not sync is durable elsewhere.
    for held in held {
        held.sync_all().unwrap();
    }
    for path in kept.iter().chain(&plain) {
        File::open(a.join(path)).unwrap().sync_all().unwrap();
    }
    for mount in [&a, &b] {
        for path in kept.iter().chain(&plain) {
            check(&mount.join(path), RECORDS);
        }
        assert!(fs::read(mount.join("small")).unwrap() == content(7));
    }
    for path in &plain {
        fs::remove_file(a.join(path)).unwrap();
    }
    cluster.wait_until("freed", |status| status["mds"]["purging"] == 0);
    // The removed OSTs, and what is left of the second server's former copies, are no problem.
    cluster.end_all();
    let others = [1, 2].map(|oss| text(&cluster.osts(oss)));
    let (code, found) = check_store(&cluster, &["--ost", &others[0], "--ost", &others[1]]);
    assert_eq!(code, 0, "{found:#}");
    let former = found["seen"]["former"].as_object().unwrap();
    let is_removed = |ost: &u64| former[&ost.to_string()]["is_removed"] == true;
    assert!(former.len() == 2 && osts.iter().all(is_removed), "{found}");
}

/// The problems that `gupfs check` finds in the stopped store, and its exit code.
fn check_store(cluster: &TestCluster, more: &[&str]) -> (i32, Value) {
    let store = text(&cluster.store());
    let mut check = command();
    let output = check.args(["check", &store, "--json"]).args(more).output();
    let output = output.unwrap();
    let found = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.code().unwrap(), found)
}

#[test]
fn a_drain_that_is_cancelled_leaves_every_byte_readable_and_the_target_in_use() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 1);
    let a = cluster.mounts[0].at.clone();
    let plain = files("", 8);
    for path in &plain {
        write(&File::create_new(a.join(path)).unwrap(), 0..RECORDS);
    }
    let osts = osts_of(&cluster, 0);
    // There and back again.
    for _ in 0..2 {
        for ost in &osts {
            drained(&cluster, *ost);
            refused(
                &run(&cluster, "drain", osts[0] ^ osts[1] ^ ost, &[]),
                "no other target takes new files",
            );
            let file = OpenOptions::new()
                .write(true)
                .open(a.join(&plain[0]))
                .unwrap();
            write(&file, 5..9);
            drop(file);
            let cancelled = run(&cluster, "drain", *ost, &["--cancel"]);
            assert!(cancelled.status.success(), "{cancelled:?}");
            for path in &plain {
                check(&a.join(path), RECORDS);
            }
        }
    }
    refused(&run(&cluster, "remove", osts[1], &[]), "not being drained");
    let served = text(&cluster.osts(0));
    let (at, key) = (cluster.osses[0].served_at(), cluster.key());
    let mut status = command();
    let status = status
        .args(["status", "--json", &at, "--key", &key])
        .output();
    let status: Value = serde_json::from_slice(&status.unwrap().stdout).unwrap();
    let targets = status["osts"].as_array().unwrap();
    for target in targets {
        // An object that is not there yet is not a lost one.
        assert_eq!(target["damage_met"], 0, "{target:#}");
    }
    // What was moved and moved back is on both.
    cluster.end_all();
    let (code, found) = check_store(&cluster, &["--ost", &served]);
    let problems = found["problems"].as_array().unwrap();
    let are_left =
        (problems.iter()).all(|it| it["kind"] == "ObjectOnWrongOst" && it["repairable"] == true);
    assert!(
        code == 1 && are_left && !problems.is_empty(),
        "{code}, {found:#}"
    );
    let (repaired, found) = check_store(&cluster, &["--ost", &served, "--repair"]);
    assert_eq!(repaired, 4, "{found:#}");
    let (clean, found) = check_store(&cluster, &["--ost", &served, "--data"]);
    assert_eq!(clean, 0, "{found:#}");
}

fn state_of(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_drain_keeps_to_its_rate_pauses_and_goes_on() {
    if !can_mount() {
        return;
    }
    const RATE: u64 = 4 << 20;
    let mut cluster = TestCluster::new(1, 1);
    let a = cluster.mounts[0].at.clone();
    let plain = files("", 24);
    for path in &plain {
        let file = File::create_new(a.join(path)).unwrap();
        write(&file, 0..RECORDS);
        file.sync_all().unwrap();
    }
    let osts = osts_of(&cluster, 0);
    let ost = osts[0];
    refused(
        &run(&cluster, "drain", ost, &["--pause"]),
        "not being drained",
    );
    let begun = Instant::now();
    let begins = run(&cluster, "drain", ost, &["--rate", "4MiB", "--json"]);
    let elapsed = |begun: Instant| begun.elapsed().as_secs_f64();
    assert_eq!(state_of(&begins)["rate"], RATE);
    let moved = |status: &Value| {
        status["mds"]["replacement"]["bytes_moved"]
            .as_u64()
            .unwrap()
    };
    cluster.wait_until("under way, with an estimate", |status| {
        let estimate = &status["mds"]["replacement"]["estimate"];
        moved(status) > 0
            && estimate["seconds_left"]
                .as_u64()
                .is_some_and(|left| left > 0)
    });
    let shown = gupfs(["status", &text(&cluster.store())]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("at no more than 4.00 MiB/s"), "{shown}");
    assert!(
        shown.contains("left to move; remaining time about"),
        "{shown}"
    );
    std::thread::sleep(Duration::from_secs(2));
    let so_far = moved(&cluster.status());
    // A file is counted when all of it has moved.
    assert!((so_far as f64) < elapsed(begun) * RATE as f64, "{so_far}");

    let paused = run(&cluster, "drain", ost, &["--pause", "--json"]);
    assert_eq!(state_of(&paused)["is_paused"], true);
    std::thread::sleep(Duration::from_secs(1));
    let before = moved(&cluster.status());
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(moved(&cluster.status()), before);
    // Also after a restart; new files stay away, and nobody takes the OST for empty.
    cluster.mds.kill();
    cluster.mds.start_again();
    let up = |status: &Value| {
        let targets = status["mds"]["targets"].as_array().unwrap();
        targets.iter().all(|target| target["is_up"] == true)
    };
    cluster.wait_until("up", up);
    let new = files("", 28).split_off(24);
    for path in &new {
        let file = File::create_new(a.join(path)).unwrap();
        write(&file, 0..RECORDS);
        assert_eq!(objects_on(&a.join(path), ost), 0, "{path:?}");
    }
    std::thread::sleep(Duration::from_secs(3));
    let status = cluster.status();
    assert_eq!(moved(&status), 0);
    let targets = status["mds"]["targets"].as_array().unwrap();
    let target = targets.iter().find(|target| target["ost"] == ost).unwrap();
    assert_eq!(
        (&target["drain_is_paused"], &target["drain_rate"]),
        (&true.into(), &RATE.into())
    );
    refused(&run(&cluster, "remove", ost, &[]), "may still have objects");
    refused(
        &run(&cluster, "drain", osts[1], &[]),
        "no other target takes new files",
    );

    // A pause in the middle of a walk leaves files that the walk does not take for moved.
    for _ in 0..3 {
        state_of(&run(&cluster, "drain", ost, &["--resume", "--json"]));
        std::thread::sleep(Duration::from_millis(700));
        state_of(&run(&cluster, "drain", ost, &["--pause", "--json"]));
    }
    let left: usize = plain
        .iter()
        .map(|path| objects_on(&a.join(path), ost))
        .sum();
    assert!(left > 0, "it was not paused");
    refused(&run(&cluster, "remove", ost, &[]), "may still have objects");
    state_of(&run(&cluster, "drain", ost, &["--rate", "0", "--json"]));
    let done = run(&cluster, "drain", ost, &["--resume", "--wait", "--json"]);
    let done = state_of(&done);
    assert_eq!(
        (&done["is_drained"], &done["rate"]),
        (&true.into(), &Value::Null),
        "{done}"
    );
    for path in plain.iter().chain(&new) {
        assert_eq!(objects_on(&a.join(path), ost), 0, "{path:?}");
        check(&a.join(path), RECORDS);
    }
    let removed = run(&cluster, "remove", ost, &[]);
    assert!(removed.status.success(), "{removed:?}");
    cluster.stop();
}

/// How many objects of the file are on the OST.
fn objects_on(path: &Path, ost: u64) -> usize {
    let output = command()
        .args(["layout", "get", "--json"])
        .arg(path)
        .output();
    let layout: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let components = layout["file"]["components"].as_array().unwrap();
    let objects = (components.iter()).flat_map(|it| it["objects"].as_array().unwrap());
    objects.filter(|object| object["ost"] == ost).count()
}

#[test]
fn a_drain_for_which_the_others_have_no_room_is_refused_beforehand() {
    if !can_mount() {
        return;
    }
    let disk = SmallDisk::make(600);
    let cluster = TestCluster::with_objects(disk.at.clone(), 1, 1);
    let a = cluster.mounts[0].at.clone();
    let osts = osts_of(&cluster, 0);
    let set = command()
        .args(["layout", "set", "--count", "1", "--first-component", "0"])
        .args(["--first-ost", &osts[0].to_string()])
        .arg(&a)
        .output()
        .unwrap();
    assert!(set.status.success(), "{set:?}");
    let file = File::create_new(a.join("f")).unwrap();
    write(&file, 0..1000);
    file.sync_all().unwrap();
    drop(file);
    // The targets keep a tenth of the disk for removals.
    let filler = disk.fill(120 << 20);
    let is_small = |status: &Value| {
        let targets = status["mds"]["targets"].as_array().unwrap();
        targets
            .iter()
            .all(|it| it["available"].as_u64() < Some(70 << 20))
    };
    cluster.wait_until("nearly full", is_small);
    let drain = run(&cluster, "drain", osts[0], &[]);
    refused(&drain, "so it is not drained");
    let said = String::from_utf8_lossy(&drain.stderr).into_owned();
    assert!(
        said.contains("MiB of 1 files") && said.contains("MiB available"),
        "{said}"
    );
    let status = cluster.status();
    let targets = status["mds"]["targets"].as_array().unwrap();
    assert!(
        targets.iter().all(|it| it["draining_since"].is_null()),
        "{status:#}"
    );
    let forced = run(&cluster, "drain", osts[0], &["--force"]);
    assert!(forced.status.success(), "{forced:?}");
    fs::remove_file(filler).unwrap();
    drained(&cluster, osts[0]);
    check(&a.join("f"), 1000);
}

#[test]
fn the_last_ost_of_a_failure_domain_that_mirrored_files_need_is_not_drained() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(2, 1);
    let a = cluster.mounts[0].at.clone();
    fs::create_dir(a.join("kept")).unwrap();
    set_mirrored(&a.join("kept"));
    wait_until_all_targets_are_up(&a.join("kept"));
    for path in files("kept", 3) {
        write(&File::create_new(a.join(path)).unwrap(), 0..3);
    }
    let osts = osts_of(&cluster, 0);
    // The server's other OST takes the files.
    drained(&cluster, osts[0]);
    let last = run(&cluster, "drain", osts[1], &[]);
    refused(&last, "too few failure domains, so it is not drained");
    refused(&last, "3 mirrored files could not leave it");
    refused(&last, "in 1 directories with mirrors");
    let asked = run(&cluster, "drain", osts[1], &["--cancel", "--json"]);
    let said: Value = serde_json::from_slice(&asked.stdout).unwrap();
    assert!(said["draining_since"].is_null(), "{said}");
    let forced = run(&cluster, "drain", osts[1], &["--force"]);
    assert!(forced.status.success(), "{forced:?}");
    let cancelled = run(&cluster, "drain", osts[1], &["--cancel"]);
    assert!(cancelled.status.success(), "{cancelled:?}");
    for path in files("kept", 3) {
        check(&a.join(path), 3);
    }
    // The other server's OSTs can be emptied one after the other no more than this one's.
    let others = osts_of(&cluster, 1);
    drained(&cluster, others[0]);
    refused(
        &run(&cluster, "drain", others[1], &[]),
        "too few failure domains",
    );
    cluster.stop();
}
