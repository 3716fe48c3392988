//! `gupfs verify` finds nothing on several mounts of a cluster. `verified_faults.rs` adds what happens to daemons and networks.

use crate::running::{TIMEOUT, can_mount, command};
use crate::test_cluster::TestCluster;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const OPS: &str = "names,data,append,attributes,locks,mmap,splice,held";

/// How long a run lasts, unless GUPFS_CLUSTER_VERIFY says otherwise.
pub fn verify_seconds(short: u64) -> u64 {
    let set = std::env::var("GUPFS_CLUSTER_VERIFY");
    set.map_or(short, |set| set.parse().unwrap())
}

/// Ended on drop, also when the test fails.
struct Verifying(Child);

impl Drop for Verifying {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `gupfs verify` with all groups of operations on these mounts for so many seconds, and causes one fault after the other meanwhile. Its
/// exit code is 0.
pub fn mounts_agree<C>(
    cluster: &mut C,
    (mounts, seconds): (&[PathBuf], u64),
    more: &[&str],
    mut cause_fault: impl FnMut(&mut C),
) {
    let out = tempfile::tempdir().unwrap();
    let printed = out.path().join("printed");
    let file = File::create(&printed).unwrap();
    let mut verify = command();
    verify.arg("verify").args(mounts);
    verify.args(["--seconds", &seconds.to_string(), "--processes", "3"]);
    verify
        .args(["--ops", OPS, "--out"])
        .arg(out.path())
        .args(more);
    verify
        .stderr(file.try_clone().unwrap())
        .stdout(Stdio::from(file));
    let mut running = Verifying(verify.spawn().unwrap());
    let (begun, most) = (Instant::now(), Duration::from_secs(seconds) + TIMEOUT);
    let mut faults = 0;
    let status = loop {
        if let Some(status) = running.0.try_wait().unwrap() {
            break status;
        }
        assert!(begun.elapsed() < most, "gupfs verify does not end");
        // The last calls, and a look at everything, take longer if a fault follows the other.
        if begun.elapsed() < Duration::from_secs(seconds) {
            cause_fault(cluster);
            faults += 1;
        } else {
            no_fault(cluster);
        }
    };
    let report = std::fs::read_to_string(&printed).unwrap();
    // A finding is also a script, which would be removed with the directory.
    if status.code() != Some(0) {
        eprintln!("saved: {}", out.keep().display());
    }
    assert_eq!(status.code(), Some(0), "after {faults} faults:\n{report}");
    eprintln!("{report}");
}

/// A pause between two looks whether the run has ended.
pub fn no_fault<C>(_: &mut C) {
    std::thread::sleep(Duration::from_millis(50));
}

#[test]
fn random_operations_on_two_mounts_fit_one_order() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 2);
    let mounts = cluster.mount_points();
    mounts_agree(&mut cluster, (&mounts, 5), &[], no_fault);
}

/// In long rounds caches are older.
#[test]
fn random_operations_of_long_rounds_on_three_mounts_fit_one_order() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 3);
    let mounts = cluster.mount_points();
    let run = (&mounts[..], verify_seconds(5));
    mounts_agree(&mut cluster, run, &["--round", "30"], no_fault);
    cluster.stop();
}
