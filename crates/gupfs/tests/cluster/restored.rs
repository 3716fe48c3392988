//! A store that was restored from a copy is refused, however often its daemon is started; and the promises of `--accept-loss` and
//! `gupfs ost accept-loss`.

use crate::lost_osts::osts_of;
use crate::mirrored_files::{set_mirrored, wait_until_all_targets_are_up, wait_until_full};
use crate::running::{TIMEOUT, can_mount, command, gupfs};
use crate::test_cluster::{Daemon, TestCluster, text};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

/// Copies like `cp -a`.
fn restore(copy_of: &Path, to: &Path) {
    copy(copy_of, to);
}

fn start_mds(cluster: &TestCluster, more: &[&str]) -> Result<Daemon, String> {
    let store = text(&cluster.store());
    let args = ["mds", &store, "--listen", &cluster.at];
    Daemon::try_start(&[&args[..], more].concat())
}

/// Checks that it ends by itself when it learns of a later state.
fn is_refused(cluster: &TestCluster) {
    if let Ok(mut mds) = start_mds(cluster, &[]) {
        assert_eq!(mds.ends(), 1);
    }
}

fn end_mounts(cluster: &mut TestCluster) {
    for mut mount in cluster.mounts.drain(..) {
        assert_eq!(mount.daemon.stop(), 0);
        let point = mount.at.clone();
        drop(mount);
        fs::remove_dir(point).unwrap();
    }
}

fn lost_found(cluster: &TestCluster) -> usize {
    let find = Command::new("find")
        .arg(cluster.osts(0))
        .args(["-path", "*/lost+found/*", "-type", "f"])
        .output();
    find.unwrap()
        .stdout
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
}

#[test]
fn a_restored_metadata_store_is_refused_and_with_accept_loss_shows_no_bytes_of_lost_files() {
    if !can_mount() {
        return;
    }
    for kills in [false, true] {
        let mut cluster = TestCluster::new(1, 1);
        fs::write(cluster.mounts[0].at.join("first"), vec![b'F'; MIB]).unwrap();
        end_mounts(&mut cluster);
        match kills {
            false => assert_eq!(cluster.mds.stop(), 0),
            true => cluster.mds.kill(),
        }
        let backup = cluster.root().join("backup");
        copy(&cluster.store(), &backup);
        cluster.mds = start_mds(&cluster, &[]).unwrap();
        let point = cluster.mount();
        for number in 0..4 {
            fs::write(point.join(format!("later{number}")), vec![b'S'; 4 * MIB]).unwrap();
        }
        end_mounts(&mut cluster);
        assert_eq!(cluster.mds.stop(), 0);
        let newest = cluster.root().join("newest");
        copy(&cluster.store(), &newest);

        restore(&backup, &cluster.store());
        for _ in 0..3 {
            is_refused(&cluster);
        }
        assert_eq!(lost_found(&cluster), 0);
        // The right store is unchanged.
        restore(&newest, &cluster.store());
        cluster.mds = start_mds(&cluster, &[]).unwrap();
        let point = cluster.mount();
        for number in 0..4 {
            let bytes = fs::read(point.join(format!("later{number}"))).unwrap();
            assert!(bytes == vec![b'S'; 4 * MIB]);
        }
        end_mounts(&mut cluster);
        assert_eq!(cluster.mds.stop(), 0);

        restore(&backup, &cluster.store());
        cluster.mds = start_mds(&cluster, &["--accept-loss"]).unwrap();
        let point = cluster.mount();
        assert!(fs::read(point.join("first")).unwrap() == vec![b'F'; MIB]);
        for number in 0..12 {
            // One hole, and one byte.
            let file = fs::File::create_new(point.join(format!("new{number}"))).unwrap();
            file.write_all_at(b".", 4 * MIB as u64 - 1).unwrap();
            drop(file);
            let bytes = fs::read(point.join(format!("new{number}"))).unwrap();
            assert!(bytes[..4 * MIB - 1].iter().all(|byte| *byte == 0));
        }
        cluster.wait_until("searched", |status| status["mds"]["sweep"]["left"] == 0);
        assert_eq!(lost_found(&cluster), 4);
        let loss = &cluster.status()["mds"]["recovery"]["loss"]["targets"];
        let counted: u64 = loss
            .as_object()
            .unwrap()
            .values()
            .filter_map(|n| n.as_u64())
            .sum();
        assert_eq!(counted, 4);
        end_mounts(&mut cluster);
        assert_eq!(cluster.mds.stop(), 0);
        // After one accepted loss it starts normally.
        cluster.mds = start_mds(&cluster, &[]).unwrap();
        let point = cluster.mount();
        assert_eq!(fs::read(point.join("new3")).unwrap().len(), 4 * MIB);
        cluster.end_all();
        let osts = text(&cluster.osts(0));
        let checked = gupfs(["check", &text(&cluster.store()), "--ost", &osts]);
        let printed = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(printed.contains("4 quarantined objects"), "{printed}");
        assert!(checked.status.success(), "{printed}");
    }
}

fn start_oss(cluster: &TestCluster, dir: &Path, at: &str) -> Daemon {
    let (dir, key) = (text(dir), cluster.key());
    let args = [
        "oss",
        &dir,
        "--mds",
        &cluster.at,
        "--key",
        &key,
        "--listen",
        at,
    ];
    Daemon::try_start(&args).unwrap()
}

/// Reads a file until the read succeeds or fails.
fn reads(point: &Path, name: &str, right: u8) -> Option<bool> {
    let read = fs::read(point.join(name));
    read.ok().map(|bytes| bytes == vec![right; MIB])
}

#[test]
fn an_older_copy_of_an_ost_is_refused_however_often_it_is_started() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 0);
    let point = cluster.mount_with(&["--deadline", "3s"]);
    fs::write(point.join("a"), vec![b'A'; MIB]).unwrap();
    assert_eq!(cluster.osses[0].stop(), 0);
    let (dir, backup) = (cluster.osts(0), cluster.root().join("older"));
    copy(&dir, &backup);
    cluster.osses[0].start_again();
    fs::write(point.join("a"), vec![b'N'; MIB]).unwrap();
    for _ in 0..2 {
        assert_eq!(cluster.osses[0].stop(), 0);
        cluster.osses[0].start_again();
    }
    assert_eq!(reads(&point, "a", b'N'), Some(true));
    assert_eq!(cluster.osses[0].stop(), 0);
    let newest = cluster.root().join("newest");
    copy(&dir, &newest);
    restore(&backup, &dir);
    for start in 0..6 {
        cluster.osses[0].start_again();
        let whole = reads(&point, "a", b'N');
        assert_eq!(whole, None, "start {start} of the older copy is believed");
        assert_eq!(cluster.osses[0].stop(), 0);
    }
    restore(&newest, &dir);
    cluster.osses[0].start_again();
    let begun = Instant::now();
    while reads(&point, "a", b'N') != Some(true) {
        assert!(begun.elapsed() < TIMEOUT);
    }
    cluster.stop();
}

#[test]
fn a_second_copy_of_an_ost_is_refused_and_the_original_continues_to_serve() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 0);
    let point = cluster.mount_with(&["--deadline", "20s"]);
    fs::write(point.join("a"), vec![b'A'; MIB]).unwrap();
    let twin = cluster.root().join("twin");
    copy(&cluster.osts(0), &twin);
    fs::write(point.join("b"), vec![b'B'; MIB]).unwrap();
    fs::write(point.join("a"), vec![b'N'; MIB]).unwrap();
    let mut twin = start_oss(&cluster, &twin, "127.0.0.1:0");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(8) {
        assert_eq!(reads(&point, "a", b'N'), Some(true));
        assert_eq!(reads(&point, "b", b'B'), Some(true));
        std::thread::sleep(Duration::from_millis(500));
    }
    // Also not when the original is unreachable for longer than its term.
    cluster.osses[0].kill();
    std::thread::sleep(Duration::from_secs(8));
    cluster.osses[0].start_again();
    assert_eq!(reads(&point, "a", b'N'), Some(true));
    assert_eq!(reads(&point, "b", b'B'), Some(true));
    twin.stop();
    cluster.stop();
}

fn accept_loss(cluster: &TestCluster, ost: u64, more: &[&str]) -> Output {
    let (ost, key) = (ost.to_string(), cluster.key());
    let args = [
        "ost",
        "accept-loss",
        &ost,
        "--mds",
        &cluster.at,
        "--key",
        &key,
    ];
    command().args(args).args(more).output().unwrap()
}

/// Until the object server has reported its copy.
fn accept_when_refused(cluster: &TestCluster, ost: u64) -> serde_json::Value {
    let begun = Instant::now();
    loop {
        let output = accept_loss(cluster, ost, &["--yes", "--json"]);
        if output.status.success() {
            return serde_json::from_slice(&output.stdout).unwrap();
        }
        assert!(begun.elapsed() < TIMEOUT, "{output:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn wait_until_up(cluster: &TestCluster, ost: u64, expected: bool) {
    cluster.wait_until("in this condition", |status| {
        let targets = status["mds"]["targets"].as_array().unwrap();
        (targets.iter()).any(|target| target["ost"] == ost && target["is_up"] == expected)
    });
}

#[test]
fn an_older_copy_of_an_ost_that_is_accepted_serves_once_and_mirrored_files_lose_nothing() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 0);
    let point = cluster.mount_with(&["--deadline", "20s"]);
    let kept = point.join("kept");
    fs::create_dir(&kept).unwrap();
    set_mirrored(&kept);
    wait_until_all_targets_are_up(&kept);
    let osts = osts_of(&cluster, 0);
    let serves = String::from_utf8_lossy(&accept_loss(&cluster, osts[0], &[]).stderr).into_owned();
    assert!(serves.contains("it serves"), "{serves}");
    let write_all = |byte: u8| {
        for number in 0..6 {
            for path in [
                kept.join(format!("m{number}")),
                point.join(format!("p{number}")),
            ] {
                fs::write(&path, vec![byte; 5 * MIB]).unwrap();
                fs::File::open(&path).unwrap().sync_all().unwrap();
            }
        }
    };
    write_all(b'A');
    assert_eq!(cluster.osses[0].stop(), 0);
    let (dir, backup) = (cluster.osts(0), cluster.root().join("older"));
    copy(&dir, &backup);
    cluster.osses[0].start_again();
    osts.iter()
        .for_each(|ost| wait_until_up(&cluster, *ost, true));
    for number in 0..6 {
        wait_until_full(&kept.join(format!("m{number}")));
    }
    write_all(b'N');
    assert_eq!(cluster.osses[0].stop(), 0);
    restore(&backup, &dir);
    cluster.osses[0].start_again();

    // Without a terminal and --yes it is only shown.
    let begun = Instant::now();
    let said = loop {
        let asked = accept_loss(&cluster, osts[0], &[]);
        assert_eq!(asked.status.code(), Some(1));
        let said = String::from_utf8_lossy(&asked.stderr).into_owned();
        if said.contains("was not accepted") {
            break String::from_utf8_lossy(&asked.stdout).into_owned();
        }
        assert!(begun.elapsed() < TIMEOUT, "{said}");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(said.contains("is an older copy (stamp"), "{said}");
    assert!(said.contains("The copy has "), "{said}");
    cluster.osses[0].kill();
    cluster.osses[0].start_again();
    std::thread::sleep(Duration::from_secs(3));
    wait_until_up(&cluster, osts[0], false);

    // The decision about one target outlives the metadata server, and is about no other target.
    let accepted = accept_when_refused(&cluster, osts[0]);
    assert_eq!(accepted["is_accepted"], true, "{accepted}");
    cluster.mds.kill();
    cluster.mds.start_again();
    cluster.osses[0].kill();
    cluster.osses[0].start_again();
    wait_until_up(&cluster, osts[0], true);
    wait_until_up(&cluster, osts[1], false);
    accept_when_refused(&cluster, osts[1]);
    cluster.osses[0].kill();
    cluster.osses[0].start_again();
    osts.iter()
        .for_each(|ost| wait_until_up(&cluster, *ost, true));
    for number in 0..6 {
        wait_until_full(&kept.join(format!("m{number}")));
    }
    // What this mount had in memory is not asked for.
    end_mounts(&mut cluster);
    let point = cluster.mount_with(&["--deadline", "3s"]);
    for number in 0..6 {
        // What the copy lacks is old, or an error, and never zeros.
        match fs::read(point.join(format!("p{number}"))) {
            Ok(plain) => assert!(plain.iter().all(|byte| b"AN".contains(byte)), "p{number}"),
            Err(error) => assert_eq!(error.raw_os_error(), Some(5), "p{number}: {error}"),
        }
    }
    cluster.osses[1].kill();
    for number in 0..6 {
        let mirrored = fs::read(point.join("kept").join(format!("m{number}"))).unwrap();
        assert!(mirrored == vec![b'N'; 5 * MIB], "m{number}");
    }
    cluster.osses[1].start_again();
    osts_of(&cluster, 1)
        .iter()
        .for_each(|ost| wait_until_up(&cluster, *ost, true));

    // It was accepted once: the same copy is refused afterwards.
    assert_eq!(cluster.osses[0].stop(), 0);
    restore(&backup, &dir);
    cluster.osses[0].start_again();
    std::thread::sleep(Duration::from_secs(3));
    osts.iter()
        .for_each(|ost| wait_until_up(&cluster, *ost, false));
}
