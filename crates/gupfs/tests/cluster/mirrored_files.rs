//! Files with two copies of each byte: one object server may be lost while programs work.

use crate::running::{can_mount, command};
use crate::test_cluster::TestCluster;
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Longer than what stays in the inode, and than what waits in a mount's memory.
const RECORD: usize = 100_000;

pub fn content(number: u64) -> Vec<u8> {
    (0..RECORD)
        .map(|at| (1 + (number as usize * 31 + at / 977) % 255) as u8)
        .collect()
}

/// Writes records, and returns the longest time that one took.
pub fn write(file: &File, numbers: std::ops::Range<u64>) -> Duration {
    let mut longest = Duration::ZERO;
    for number in numbers {
        let begun = Instant::now();
        file.write_all_at(&content(number), number * RECORD as u64)
            .unwrap();
        longest = longest.max(begun.elapsed());
    }
    longest
}

pub fn check(path: &Path, count: u64) {
    let found = fs::read(path).unwrap();
    assert_eq!(found.len(), count as usize * RECORD);
    for number in 0..count {
        let at = number as usize * RECORD;
        assert!(
            found[at..at + RECORD] == content(number)[..],
            "record {number}"
        );
    }
}

/// As soon as the object servers have reported to the metadata server.
pub fn set_mirrored(dir: &Path) {
    let begun = Instant::now();
    let set = || {
        let mut set = command();
        set.args(["layout", "set", "--redundancy", "mirror:2"]);
        set.arg(dir).output().unwrap()
    };
    loop {
        let output = set();
        if output.status.success() {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{output:?}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// How many objects of the file are stale.
pub fn stale_objects(path: &Path) -> usize {
    let shown = command()
        .args(["layout", "get"])
        .arg(path)
        .output()
        .unwrap();
    assert!(shown.status.success(), "{shown:?}");
    let text = String::from_utf8(shown.stdout).unwrap();
    text.lines().filter(|line| line.contains(" stale")).count()
}

/// Returns when a new file gets no stale object.
pub fn wait_until_all_targets_are_up(dir: &Path) {
    let begun = Instant::now();
    loop {
        let path = dir.join("probe");
        write(&File::create(&path).unwrap(), 0..60);
        let stale = stale_objects(&path);
        fs::remove_file(&path).unwrap();
        if stale == 0 {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}

pub fn wait_until_full(path: &Path) {
    let begun = Instant::now();
    while stale_objects(path) > 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the members stay stale"
        );
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn the_loss_of_an_object_server_costs_a_pause_and_no_byte() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 2);
    let (a, b) = (cluster.mounts[0].at.clone(), cluster.mounts[1].at.clone());
    fs::create_dir(a.join("kept")).unwrap();
    set_mirrored(&a.join("kept"));
    wait_until_all_targets_are_up(&a.join("kept"));
    let (path, seen) = (a.join("kept/f"), b.join("kept/f"));
    let file = File::create_new(&path).unwrap();
    write(&file, 0..50);
    check(&seen, 50);
    assert_eq!(stale_objects(&path), 0);

    // A program writes, syncs and reads on while a server is away; so does another mount.
    cluster.osses[0].kill();
    let longest = write(&file, 50..100);
    assert!(longest < Duration::from_secs(10), "{longest:?}");
    file.sync_all().unwrap();
    check(&path, 100);
    check(&seen, 100);
    assert!(stale_objects(&path) > 0);
    fs::write(b.join("kept/made meanwhile"), content(7)).unwrap();
    file.set_len(90 * RECORD as u64).unwrap();
    write(&file, 90..100);
    drop(file);

    // The server comes back, gets what it has missed, and alone has everything.
    cluster.osses[0].start_again();
    wait_until_full(&path);
    wait_until_full(&a.join("kept/made meanwhile"));
    cluster.osses[1].kill();
    check(&seen, 100);
    check(&path, 100);
    assert!(fs::read(a.join("kept/made meanwhile")).unwrap() == content(7));
    let file = OpenOptions::new().write(true).open(&seen).unwrap();
    write(&file, 20..30);
    file.sync_all().unwrap();
    check(&path, 100);
}

/// Writes the next record, and reads the last one through another mount, until `is_over`; returns the number of the next, and the longest
/// time that one step took.
fn write_and_read(file: &File, other: &Path, is_over: &AtomicBool) -> (u64, Duration) {
    let (mut next, mut longest) = (0, Duration::ZERO);
    while !is_over.load(SeqCst) {
        let begun = Instant::now();
        write(file, next..next + 1);
        let mut read = vec![0; RECORD];
        let at = next * RECORD as u64;
        let opened = File::open(other).unwrap();
        opened.read_exact_at(&mut read, at).unwrap();
        assert!(read == content(next), "record {next}");
        longest = longest.max(begun.elapsed());
        next += 1;
    }
    (next, longest)
}

#[test]
fn an_object_server_that_stops_in_order_keeps_no_writer_waiting() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 2);
    let (a, b) = (cluster.mounts[0].at.clone(), cluster.mounts[1].at.clone());
    fs::create_dir(a.join("kept")).unwrap();
    set_mirrored(&a.join("kept"));
    wait_until_all_targets_are_up(&a.join("kept"));
    let (path, seen) = (a.join("kept/f"), b.join("kept/f"));
    let (file, is_over) = (File::create_new(&path).unwrap(), AtomicBool::new(false));
    let (count, longest) = std::thread::scope(|scope| {
        let steps = scope.spawn(|| write_and_read(&file, &seen, &is_over));
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(cluster.osses[0].stop(), 0);
        std::thread::sleep(Duration::from_secs(5));
        is_over.store(true, SeqCst);
        steps.join().unwrap()
    });
    // A server that is killed costs 4.5 s.
    assert!(longest < Duration::from_secs(3), "{longest:?}");
    assert!(stale_objects(&path) > 0);
    drop(file);
    cluster.osses[0].start_again();
    wait_until_full(&path);
    cluster.osses[1].kill();
    check(&path, count);
    check(&seen, count);
}

/// Runs `gupfs resync`; its JSON.
#[test]
fn the_end_of_a_mount_does_not_wait_for_a_silent_server_whose_copies_others_have() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 2);
    let [at, other] = [0, 1].map(|number| cluster.mount_points()[number].clone());
    set_mirrored(&at);
    wait_until_all_targets_are_up(&at);
    // Closed and not synced.
    for number in 0..8 {
        let file = File::create(at.join(format!("file {number}"))).unwrap();
        write(&file, 0..30);
    }
    cluster.osses[1].signal(Signal::STOP);
    let begun = Instant::now();
    assert_eq!(cluster.mounts.remove(0).daemon.stop(), 0);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
    for number in 0..8 {
        check(&other.join(format!("file {number}")), 30);
    }
    cluster.osses[1].signal(Signal::CONT);
    cluster.stop();
}

/// The metadata server has the objects truncated. Some of these requests are under way when the server falls silent.
#[test]
fn truncates_do_not_wait_for_a_silent_server() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(2, 1);
    let at = cluster.mounts[0].at.clone();
    set_mirrored(&at);
    wait_until_all_targets_are_up(&at);
    let is_over = AtomicBool::new(false);
    let work = |number: u64| {
        let file = File::create_new(at.join(format!("file {number}"))).unwrap();
        let (mut longest, mut round) = (Duration::ZERO, number);
        while !is_over.load(SeqCst) {
            round += 1;
            write(&file, round % 20..round % 20 + 2);
            let begun = Instant::now();
            file.set_len(round * 77_777 % 2_000_000).unwrap();
            longest = longest.max(begun.elapsed());
        }
        file.set_len(0).unwrap();
        write(&file, 0..5);
        longest
    };
    let longest = std::thread::scope(|scope| {
        let programs = [0, 1, 2, 3].map(|number| {
            scope.spawn({
                let work = &work;
                move || work(number)
            })
        });
        std::thread::sleep(Duration::from_secs(2));
        cluster.osses[0].signal(Signal::STOP);
        std::thread::sleep(Duration::from_secs(20));
        cluster.osses[0].signal(Signal::CONT);
        std::thread::sleep(Duration::from_secs(1));
        is_over.store(true, SeqCst);
        programs.map(|program| program.join().unwrap())
    });
    println!("the longest truncates: {longest:?}");
    assert!(
        longest.iter().all(|one| *one < Duration::from_secs(12)),
        "{longest:?}"
    );
    for number in 0..4 {
        check(&at.join(format!("file {number}")), 5);
    }
    cluster.wait_until("every copy is full", |status| {
        status["mds"]["resync"]["files_left"] == 0
            && status["mds"]["resync"]["is_expected"] == false
    });
    cluster.stop();
}

fn resync(cluster: &TestCluster, more: &[&str]) -> Value {
    let key = cluster.key();
    let args = ["resync", "--mds", &cluster.at, "--key", &key, "--json"];
    let output = command().args(args).args(more).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_resync_keeps_to_its_rate_and_a_paused_one_copies_nothing() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 1);
    let a = cluster.mounts[0].at.clone();
    fs::create_dir(a.join("kept")).unwrap();
    set_mirrored(&a.join("kept"));
    wait_until_all_targets_are_up(&a.join("kept"));
    let path = a.join("kept/f");
    let file = File::create_new(&path).unwrap();
    write(&file, 0..10);
    cluster.osses[0].kill();
    write(&file, 0..80);
    drop(file);
    assert_eq!(resync(&cluster, &["--pause"])["is_paused"], true);
    cluster.osses[0].start_again();
    // As long as several rounds would take.
    std::thread::sleep(Duration::from_secs(7));
    let paused = resync(&cluster, &[]);
    assert_eq!(
        (&paused["is_expected"], &paused["bytes_copied"]),
        (&true.into(), &0.into())
    );
    assert!(stale_objects(&path) > 0);

    let begun = Instant::now();
    let resumed = resync(&cluster, &["--rate", "2MiB/s", "--resume"]);
    assert_eq!(resumed["rate"], 2 << 20);
    let done = resync(&cluster, &["--wait"]);
    let copied = done["bytes_copied"].as_u64().unwrap();
    assert!(copied >= 70 * RECORD as u64, "{done}");
    let least = Duration::from_secs_f64(copied as f64 / f64::from(2 << 20));
    assert!(
        begun.elapsed() >= least - Duration::from_millis(600),
        "{:?}, {done}",
        begun.elapsed()
    );
    assert_eq!(stale_objects(&path), 0);
    cluster.osses[1].kill();
    check(&path, 80);
}

/// Writes one record into each of the first MiBs of the file; returns the time that each took.
fn write_stripes(file: &File, version: u64) -> Vec<Duration> {
    let write = |stripe: u64| {
        let begun = Instant::now();
        file.write_all_at(&content(version + stripe), stripe << 20)
            .unwrap();
        begun.elapsed()
    };
    (0..STRIPES).map(write).collect()
}

const STRIPES: u64 = 4;

#[test]
fn a_file_with_members_on_several_targets_of_a_silent_server_waits_for_it_once() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(2, 2);
    let (a, b) = (cluster.mounts[0].at.clone(), cluster.mounts[1].at.clone());
    fs::create_dir(a.join("kept")).unwrap();
    set_mirrored(&a.join("kept"));
    let set = command()
        .args(["layout", "set", "--redundancy", "mirror:2"])
        .args(["--count", "all", "--first-component", "0"])
        .arg(a.join("kept"))
        .output()
        .unwrap();
    assert!(set.status.success(), "{set:?}");
    wait_until_all_targets_are_up(&a.join("kept"));
    let path = a.join("kept/f");
    let file = File::create_new(&path).unwrap();
    write_stripes(&file, 0);
    assert_eq!(stale_objects(&path), 0);
    let shown = command().args(["layout", "get"]).arg(&path).output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    for ost in crate::lost_osts::osts_of(&cluster, 0) {
        assert!(shown.contains(&format!("ost{ost} ")), "{shown}");
    }

    let silent = &cluster.osses[0];
    silent.signal(rustix::process::Signal::STOP);
    let mut took = write_stripes(&file, 10);
    // Reads of what nobody has cached.
    for stripe in 0..STRIPES {
        let (other, mut read) = (File::open(b.join("kept/f")).unwrap(), vec![0; RECORD]);
        let begun = Instant::now();
        other.read_exact_at(&mut read, stripe << 20).unwrap();
        took.push(begun.elapsed());
        assert!(read == content(10 + stripe));
    }
    silent.signal(rustix::process::Signal::CONT);
    took.sort();
    let [.., second, first] = &took[..] else {
        panic!("{took:?}")
    };
    // The first call that needs the server takes 4.5 s; the others know.
    assert!(*first < Duration::from_secs(8), "{took:?}");
    assert!(*second < Duration::from_secs(3), "{took:?}");
    drop(file);
    cluster.stop();
}

#[test]
fn more_copies_than_failure_domains_are_refused_and_the_message_says_what_a_domain_is() {
    if !can_mount() {
        return;
    }
    // Two targets on one server.
    let cluster = TestCluster::new(1, 1);
    let set = command()
        .args(["layout", "set", "--redundancy", "mirror:3"])
        .arg(&cluster.mounts[0].at)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&set.stderr);
    assert_eq!(set.status.code(), Some(1), "{said}");
    assert!(said.contains("in 3 failure domains"), "{said}");
}

#[test]
fn a_redundancy_that_the_servers_cannot_give_is_refused() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(2, 1);
    let set = command()
        .args(["layout", "set", "--redundancy", "mirror:3"])
        .arg(&cluster.mounts[0].at)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&set.stderr);
    assert_eq!(set.status.code(), Some(1), "{said}");
    assert!(said.contains("3 failure domains"), "{said}");
}
