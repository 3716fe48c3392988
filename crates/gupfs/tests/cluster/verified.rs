//! `gupfs verify` finds nothing on two mounts of a cluster.

use crate::running::{can_mount, command};
use crate::test_cluster::TestCluster;

const OPS: &str = "names,data,append,attributes,locks,mmap,splice,held";

#[test]
fn random_operations_on_two_mounts_fit_one_order() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(2, 2);
    let out = tempfile::tempdir().unwrap();
    let mut verify = command();
    verify
        .arg("verify")
        .args(cluster.mounts.iter().map(|mount| &mount.at))
        .args(["--seconds", "8", "--processes", "3", "--ops", OPS, "--out"])
        .arg(out.path());
    let output = verify.output().unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{report}");
}
