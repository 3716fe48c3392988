//! A mount ends after SIGTERM: at every point of its life, with copies in other mount namespaces, and with unreachable servers.

use crate::running::{TIMEOUT, can_mount, is_mounted};
use crate::test_cluster::{TestCluster, text};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A process that ends with the test.
struct Other(Child);

impl Other {
    fn start(command: &mut Command) -> Other {
        Other(command.spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Whether `path` is a mount in its namespace.
    fn has_mount(&self, path: &Path) -> bool {
        let table = fs::read_to_string(format!("/proc/{}/mountinfo", self.0.id())).unwrap();
        table
            .lines()
            .any(|line| line.split(' ').nth(4) == path.to_str())
    }

    fn namespace(&self) -> Option<std::path::PathBuf> {
        fs::read_link(format!("/proc/{}/ns/mnt", self.0.id())).ok()
    }

    /// Waits until it has a private mount namespace.
    fn has_left(&self) {
        let ours = fs::read_link("/proc/self/ns/mnt").unwrap();
        let begun = Instant::now();
        while self.namespace().is_none_or(|its| its == ours) {
            assert!(begun.elapsed() < TIMEOUT, "it has no mounts of its own");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A container or a service with private mounts starts with a copy of all mounts, and keeps them alive.
#[test]
fn a_copy_in_another_mount_namespace_does_not_prevent_the_end_of_a_mount() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 2);
    let mounts: Vec<_> = cluster
        .mounts
        .iter()
        .map(|mount| mount.at.clone())
        .collect();
    fs::write(mounts[0].join("f"), vec![7; 300_000]).unwrap();
    let container = Other::start(
        Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sleep", "600"])
            .stdin(Stdio::null()),
    );
    container.has_left();
    assert!(container.has_mount(&mounts[0]));
    // It waits for the copy for 10 s; `stop` fails if it waits until the container ends.
    assert_eq!(cluster.mounts[0].daemon.stop(), 0);
    // A further signal does not wait for the copy at all.
    cluster.mounts[1].daemon.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(cluster.mounts[1].daemon.stop(), 0);
    drop(container);
    for mount in &mut cluster.mounts {
        mount.daemon.start_again();
        assert!(fs::read(mount.at.join("f")).unwrap() == vec![7; 300_000]);
    }
    cluster.stop();
}

/// Every start of a mount probes the kernel in a process with private mounts.
#[test]
fn the_start_of_a_mount_keeps_no_copies_of_other_mounts() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 1);
    let mount = cluster.mounts[0].at.clone();
    let test_store = tempfile::tempdir().unwrap();
    let mut trial = Other::start(
        crate::running::command()
            .args(["kernel-facts", "--all", "--device"])
            .arg(test_store.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    trial.has_left();
    let begun = Instant::now();
    while trial.has_mount(&mount) {
        assert!(begun.elapsed() < TIMEOUT, "it keeps its copy");
        assert!(
            trial.0.try_wait().unwrap().is_none(),
            "it kept its copy to the end"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut findings = String::new();
    let mut printed = trial.0.stdout.take().unwrap();
    printed.read_to_string(&mut findings).unwrap();
    assert!(findings.starts_with('['), "{findings}");
    assert!(fs::read_dir(&mount).is_ok(), "ours is still there");
    cluster.stop();
}

/// A mount that cannot connect ends after 60 s by itself. It is told to end at most 1.5 s after its start.
const BEFORE_CONNECT_TIMEOUT: Duration = Duration::from_secs(55);

/// Starts `gupfs mount`, sends SIGTERM after a delay, and returns how long it took to end.
fn ends_after(cluster: &TestCluster, point: &Path, delay: Duration) -> Duration {
    let store = text(&cluster.store());
    let key = format!("{store}/cluster.key");
    let mut mount = Other::start(
        crate::running::command()
            .args(["mount", &cluster.at, &text(point), "--key", &key])
            .stdout(Stdio::null()),
    );
    std::thread::sleep(delay);
    let begun = Instant::now();
    mount.signal(Signal::TERM);
    while mount.0.try_wait().unwrap().is_none() {
        assert!(
            begun.elapsed() < BEFORE_CONNECT_TIMEOUT,
            "told after {delay:?}, it does not end"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(
        !is_mounted(point),
        "told after {delay:?}, it left its mount"
    );
    begun.elapsed()
}

#[test]
fn a_mount_ends_after_sigterm_at_every_point_of_its_life() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 1);
    let point = cluster.root().join("told");
    fs::create_dir(&point).unwrap();
    // During the start, with delays of different lengths; and after it.
    for step in 0..14 {
        ends_after(&cluster, &point, Duration::from_millis(step * 97));
    }
    // Under load, with dirty pages of mappings.
    let busy = cluster.mounts[0].at.clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let stops = is_over.clone();
    // A write that begins after the unmount goes to the directory below and succeeds: it does not end the loop.
    let writer = std::thread::spawn(move || {
        for round in 0..usize::MAX {
            let file = busy.join(format!("w{}", round % 7));
            if stops.load(Relaxed) || fs::write(file, vec![round as u8; 3 << 20]).is_err() {
                return;
            }
        }
    });
    std::thread::sleep(Duration::from_millis(700));
    cluster.mounts[0].daemon.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(300));
    // In use: the second signal does not wait.
    assert_eq!(cluster.mounts[0].daemon.stop(), 0);
    is_over.store(true, Relaxed);
    writer.join().unwrap();
    // Remove what it wrote into the mount point: the next mount needs an empty directory.
    for number in 0..7 {
        let _ = fs::remove_file(cluster.mounts[0].at.join(format!("w{number}")));
    }
    // Unreachable servers: before the mount has connected, and after.
    cluster.osses[0].kill();
    ends_after(&cluster, &point, Duration::from_millis(1_500));
    cluster.mds.kill();
    ends_after(&cluster, &point, Duration::from_millis(700));
    cluster.mds.start_again();
    cluster.osses[0].start_again();
    cluster.mounts[0].daemon.start_again();
    let mount = cluster.mounts[0].at.clone();
    fs::write(mount.join("last"), vec![1; 100_000]).unwrap();
    cluster.mds.kill();
    cluster.osses[0].kill();
    // Its last reports reach no server: it prints that, and ends.
    let code = cluster.mounts[0].daemon.stop();
    assert!([0, 1].contains(&code), "{code}");
    assert!(!is_mounted(&mount));
    cluster.mounts.clear();
    cluster.mds.start_again();
    cluster.osses[0].start_again();
    cluster.stop();
}
