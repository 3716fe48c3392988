//! `gupfs check` of a cluster whose OSTs are on object servers.

use crate::running::{can_mount, gupfs, refused};
use crate::test_cluster::{TestCluster, text};
use expect_test::expect;
use std::fs;
use std::path::{Path, PathBuf};

/// Larger than inline data can be.
const LARGE: usize = 100_000;

fn check(cluster: &TestCluster, more: &[&str]) -> (i32, serde_json::Value) {
    let store = text(&cluster.store());
    let args = [&["check", &store, "--json"], more].concat();
    let output = gupfs(&args);
    let printed = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.code().unwrap(), printed)
}

/// The file of some object in a directory of OSTs.
fn an_object(osts: &Path) -> PathBuf {
    let below = |dir: PathBuf| {
        let entries = fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().path())
    };
    let disks = below(osts.to_path_buf());
    let mut objects = disks.flat_map(|disk| below(disk.join("objects")).flat_map(below));
    objects.next().expect("files have objects")
}

#[test]
fn osts_of_object_servers_are_checked_if_named_and_counted_if_not() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 1);
    let mount = cluster.mounts[0].at.clone();
    for number in 0..12 {
        fs::write(mount.join(format!("file{number}")), vec![7; LARGE]).unwrap();
    }
    cluster.end_all();
    let (one, other) = (text(&cluster.osts(0)), text(&cluster.osts(1)));
    let elsewhere = |printed: &serde_json::Value| -> (usize, u64) {
        let all = printed["seen"]["elsewhere"].as_object().unwrap();
        let counts = all.values().map(|count| count.as_u64().unwrap());
        (all.len(), counts.sum())
    };

    let (code, printed) = check(&cluster, &[]);
    assert_eq!((code, elsewhere(&printed)), (0, (4, 12)), "{printed:#}");
    let words = gupfs(["check", &text(&cluster.store())]);
    let words = String::from_utf8(words.stdout).unwrap();
    let told = |line: &&str| {
        line.starts_with("not checked: ost")
            && line.ends_with("objects (name its directory with --ost DIR)")
    };
    assert_eq!(words.lines().filter(told).count(), 4, "{words}");

    let (code, printed) = check(&cluster, &["--ost", &one, "--data"]);
    assert_eq!((code, elsewhere(&printed).0), (0, 2), "{printed:#}");
    let both = ["--ost", &one, "--ost", &other, "--data"];
    let (code, printed) = check(&cluster, &both);
    assert_eq!((code, elsewhere(&printed)), (0, (0, 0)), "{printed:#}");
    assert_eq!(printed["seen"]["objects"], 12);
    assert!(printed["seen"]["bytes"].as_u64().unwrap() >= 12 * LARGE as u64);

    fs::remove_file(an_object(&cluster.osts(1))).unwrap();
    let (code, printed) = check(&cluster, &both);
    assert_eq!(code, 1);
    assert_eq!(printed["problems"][0]["kind"], "ObjectLost", "{printed:#}");

    let store = text(&cluster.store());
    let refusal = |more: &[&str]| {
        let output = gupfs([&["check", &store], more].concat());
        refused(&output, &cluster.root())
    };
    expect![[r#"
        2
        gupfs check: 'DIR/mds' contains no OST.
          → name the directory that `gupfs ost add` created, or its parent directory.
    "#]]
    .assert_eq(&refusal(&["--ost", &store]));
    expect![[r#"
        2
        gupfs check: 'DIR/osts0/disk0' is ost0, and so is 'DIR/osts0/disk0'.
          → name each OST's directory once.
    "#]]
    .assert_eq(&refusal(&["--ost", &one, "--ost", &one]));
    let foreign = TestCluster::new(1, 0);
    let printed = refusal(&["--ost", &text(&foreign.osts(0))]);
    assert!(
        printed.contains("name only OSTs of this cluster"),
        "{printed}"
    );
    foreign.stop();
}
