//! Jumps of the wall clocks of running daemons: they may affect only time stamps.

use crate::load;
use crate::running::{can_mount, gupfs};
use crate::test_cluster::{DaemonHosts, TestCluster, text};
use gupfs_skips::{Need, skip};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const HOUR: i64 = 3_600;

/// Longer than the operations of this test take, shorter than a jump.
const MINUTES: i64 = 20 * 60;

/// How long a clock keeps its offset, in seconds.
fn stays() -> Duration {
    let set = std::env::var("GUPFS_CLUSTER_JUMPS");
    Duration::from_secs(set.map_or(2, |set| set.parse().unwrap()))
}

/// The wall clock of one daemon.
struct Wall {
    ahead: PathBuf,
}

impl Wall {
    fn new(dir: &Path, daemon: &str) -> Wall {
        let wall = Wall {
            ahead: dir.join(format!("ahead-{daemon}")),
        };
        fs::write(&wall.ahead, 0_i64.to_ne_bytes()).unwrap();
        wall
    }

    /// Lets the clock jump now, also in a running process, which maps the file.
    fn is_ahead(&self, secs: i64) {
        let file = File::options().write(true).open(&self.ahead).unwrap();
        file.write_all_at(&secs.to_ne_bytes(), 0).unwrap();
    }

    /// The command prefix with which a program uses this clock.
    fn before(&self, library: &Path) -> Vec<String> {
        let variables = [
            format!("LD_PRELOAD={}", library.display()),
            format!("WALL_AHEAD={}", self.ahead.display()),
        ];
        ["env".to_string()].into_iter().chain(variables).collect()
    }
}

fn compile(dir: &Path) -> PathBuf {
    let library = dir.join("other_time.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/other_time.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O2", "-o"]);
    let compiled = cc.arg(&library).arg(source).arg("-ldl").status();
    assert!(
        compiled.expect("cc runs").success(),
        "other_time.c does not compile"
    );
    library
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_secs() as i64
}

/// How far the time stamps of a file that is created and written now are ahead of this test's clock.
fn stamps(mount: &Path, name: &str) -> (i64, i64) {
    let path = mount.join(name);
    let file = File::create_new(&path).unwrap();
    let made = file.metadata().unwrap().mtime() - now();
    file.write_all_at(&[1; 100_000], 0).unwrap();
    file.sync_all().unwrap();
    let written = file.metadata().unwrap().mtime() - now();
    fs::remove_file(&path).unwrap();
    (made, written)
}

#[track_caller]
fn is_about(stamp: i64, ahead: i64) {
    assert!((stamp - ahead).abs() < MINUTES, "{stamp} s, not {ahead} s");
}

/// The number of requests that an object server refused.
fn refused(cluster: &TestCluster, oss: usize) -> u64 {
    let at = cluster.osses[oss].served_at();
    let status = gupfs(["status", "--json", &at, "--key", &cluster.key()]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let gate = status["gate"].as_object().unwrap();
    let faults = ["missing", "forged", "expired", "fenced", "rights"];
    let count = |fault: &str| gate.get(fault).and_then(serde_json::Value::as_u64);
    faults.into_iter().filter_map(count).sum()
}

#[test]
fn wall_clocks_that_jump_affect_only_time_stamps() {
    if !can_mount() {
        return;
    }
    if cfg!(not(target_arch = "x86_64")) {
        skip(
            Need::Architecture,
            "the clock of one process can be moved on x86-64 only",
        );
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let library = compile(dir.path());
    let mut daemon_hosts = DaemonHosts::default();
    let [of_mds, of_oss, of_mount] = ["mds", "oss0", "mnt0"].map(|daemon| {
        let wall = Wall::new(dir.path(), daemon);
        let before = wall.before(&library);
        daemon_hosts.before.insert(daemon.to_string(), before);
        wall
    });
    let mut cluster = TestCluster::on(daemon_hosts, 1, 2);
    let mounts: Vec<_> = cluster
        .mounts
        .iter()
        .map(|mount| mount.at.clone())
        .collect();
    let (jumping, steady) = (&mounts[0], &mounts[1]);
    let numbers = |cluster: &TestCluster| {
        let status = cluster.status();
        let sessions = status["mds"]["sessions"].as_object().unwrap();
        sessions.keys().cloned().collect::<Vec<_>>()
    };
    let before = numbers(&cluster);
    let journals = load::while_working(&mounts, || {
        for ahead in [HOUR, -HOUR, 0] {
            of_mount.is_ahead(ahead);
            std::thread::sleep(stays());
            // The creation has the time of the metadata server, the write that of the client.
            let (made, written) = stamps(jumping, "of a client");
            is_about(made, 0);
            is_about(written, ahead);
            let (made, written) = stamps(steady, "of another");
            is_about(made, 0);
            is_about(written, 0);
        }
        for ahead in [HOUR, -HOUR, 0] {
            of_oss.is_ahead(ahead);
            std::thread::sleep(stays());
            let (_, written) = stamps(steady, "of neither");
            is_about(written, 0);
        }
        for ahead in [-HOUR, HOUR, 0] {
            of_mds.is_ahead(ahead);
            std::thread::sleep(stays());
            let (made, _) = stamps(steady, "of the server");
            // Its time stamps never go back while it runs.
            is_about(made, ahead.max(if ahead == 0 { HOUR } else { 0 }));
        }
        // Started in the past.
        for ahead in [-HOUR, 0] {
            of_mds.is_ahead(ahead);
            cluster.mds.kill();
            cluster.mds.start_again();
            of_oss.is_ahead(ahead);
            cluster.osses[0].kill();
            cluster.osses[0].start_again();
            std::thread::sleep(stays());
        }
    });
    let done: u64 = journals.iter().map(|journal| journal.operations).sum();
    eprintln!("11 jumps of three clocks: {done} operations, each done once");
    assert_eq!(numbers(&cluster), before, "a session has ended");
    for mount in &mounts {
        let status = TestCluster::status_of(mount);
        assert_eq!(status["mount"]["late"], 0, "{}", text(mount));
    }
    assert_eq!(refused(&cluster, 0), 0);
    cluster.stop();
}
