//! `gupfs top` names the jobs of programs on all mounts, and counts what the servers do for each.

use crate::running::{can_mount, command};
use crate::test_cluster::TestCluster;
use serde_json::Value;
use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// The mounts take the job of a process from this variable.
const VARIABLE: &str = "GUPFS_TEST_JOB";

fn cluster_with_jobs(mounts: usize) -> TestCluster {
    let mut cluster = TestCluster::new(2, 0);
    let config = cluster.root().join("jobs.toml");
    fs::write(&config, format!("[mount]\njob = \"{VARIABLE}\"\n")).unwrap();
    for _ in 0..mounts {
        cluster.mount_with(&["--config", config.to_str().unwrap()]);
    }
    cluster
}

/// The lines of `gupfs top`, by the name of each.
fn top(cluster: &TestCluster, by: &str) -> Vec<Value> {
    let key = cluster.key();
    let args = ["top", &cluster.at, "--key", &key, "--by", by, "--json"];
    let output = command().args(args).output().unwrap();
    let reply: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    reply["lines"].as_array().unwrap().clone()
}

fn line_of(cluster: &TestCluster, by: &str, name: &str) -> Option<Value> {
    let mut lines = top(cluster, by).into_iter();
    lines.find(|line| line[by] == name)
}

/// Object servers report once a second.
fn wait_for(cluster: &TestCluster, by: &str, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..100 {
        if let Some(line) = line_of(cluster, by, name)
            && is_so(&line)
        {
            return line;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    panic!("{by} {name}: {:?}", top(cluster, by));
}

/// A program in a job. It makes its first call to a mount after it was executed: only then it has its variables.
fn in_job(job: &str, program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).env(VARIABLE, job);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn run(mut command: Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

#[test]
fn a_job_has_its_calls_and_bytes_on_all_mounts() {
    if !can_mount() {
        return;
    }
    let cluster = cluster_with_jobs(2);
    let [a, b] = &cluster.mount_points()[..] else {
        panic!("two mounts");
    };
    let (to, from) = (
        format!("of={}/big", a.display()),
        format!("if={}/big", b.display()),
    );
    let write = ["if=/dev/zero", &to, "bs=1M", "count=8", "conv=fsync"];
    run(in_job("alpha", "dd", &write));
    run(in_job("alpha", "dd", &[&from, "of=/dev/null", "bs=1M"]));
    let small = format!("for i in $(seq 50); do : > {}/small$i; done", b.display());
    run(in_job("be\nta\"", "sh", &["-c", &small]));
    let has_all = |line: &Value| {
        let total = &line["total"];
        total["written_bytes"] == 8 * MIB && total["read_bytes"] == 8 * MIB
    };
    let alpha = wait_for(&cluster, "job", "job:alpha", has_all);
    assert_eq!(alpha["uid"], 0);
    assert_eq!(alpha["hosts"].as_array().unwrap().len(), 1, "{alpha}");
    let beta = wait_for(&cluster, "job", "job:be?ta\"", |_| true);
    assert_eq!(beta["total"]["calls"]["create"], 50, "{beta}");
    // The same bytes by target, by user and by host.
    let sum = |by: &str, field: &str| -> u64 {
        let lines = top(&cluster, by);
        lines
            .iter()
            .map(|line| line["total"][field].as_u64().unwrap())
            .sum()
    };
    for by in ["ost", "user", "host", "op"] {
        assert_eq!(
            sum(by, "written_bytes"),
            8 * MIB,
            "{by}: {:?}",
            top(&cluster, by)
        );
        assert_eq!(
            sum(by, "read_bytes"),
            8 * MIB,
            "{by}: {:?}",
            top(&cluster, by)
        );
    }
    // A mount's process passes the question on; text names the job, too.
    let output = command().arg("top").arg(a).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("job:alpha"),
        "{output:?}"
    );
    cluster.stop();
}

/// A program that ends when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_restarted_metadata_server_learns_the_names_of_running_jobs() {
    if !can_mount() {
        return;
    }
    let mut cluster = cluster_with_jobs(1);
    let at = cluster.mount_points()[0].clone();
    let at = at.display();
    let endless = format!("while :; do : > {at}/file; rm {at}/file; sleep 0.1; done");
    let running = in_job("gamma", "sh", &["-c", &endless]).spawn();
    let _running = Running(running.unwrap());
    wait_for(&cluster, "job", "job:gamma", |line| {
        line["total"]["calls"]["create"].is_u64()
    });
    cluster.mds.kill();
    cluster.mds.start_again();
    wait_for(&cluster, "job", "job:gamma", |line| {
        line["total"]["calls"]["create"].is_u64()
    });
    cluster.stop();
}

/// execve(2) closes files while it has locks of its process, and waits for the mount meanwhile: a mount that then reads the process's variables
/// waits for these locks.
#[test]
fn a_program_that_is_executed_with_open_files_of_the_mount_does_not_wait() {
    if !can_mount() {
        return;
    }
    let cluster = cluster_with_jobs(1);
    let at = cluster.mount_points()[0].clone();
    let files: Vec<File> = (0..20)
        .map(|file| File::create(at.join(format!("file{file}"))).unwrap())
        .collect();
    let begun = Instant::now();
    for _ in 0..20 {
        run(in_job("delta", "true", &[]));
    }
    // A mount that hangs is aborted after 25 s.
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    drop(files);
    cluster.stop();
}
