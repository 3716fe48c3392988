//! `gupfs check` of a cluster whose OSTs lie elsewhere.

use crate::running::{can_mount, gupfs, refused};
use crate::town::{Town, text};
use expect_test::expect;
use std::fs;
use std::path::{Path, PathBuf};

/// Larger than what an inode holds.
const LARGE: usize = 100_000;

fn check(town: &Town, more: &[&str]) -> (i32, serde_json::Value) {
    let store = text(&town.store());
    let args = [&["check", &store, "--json"], more].concat();
    let output = gupfs(&args);
    let said = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.code().unwrap(), said)
}

/// Some object's file below a directory of OSTs.
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
fn osts_elsewhere_are_looked_at_if_they_are_named_and_told_if_not() {
    if !can_mount() {
        return;
    }
    let mut town = Town::new(2, 1);
    let mount = town.mounts[0].at.clone();
    for number in 0..12 {
        fs::write(mount.join(format!("file{number}")), vec![7; LARGE]).unwrap();
    }
    town.end_all();
    let (one, other) = (text(&town.osts(0)), text(&town.osts(1)));
    let elsewhere = |said: &serde_json::Value| -> (usize, u64) {
        let all = said["seen"]["elsewhere"].as_object().unwrap();
        let counts = all.values().map(|count| count.as_u64().unwrap());
        (all.len(), counts.sum())
    };

    let (code, said) = check(&town, &[]);
    assert_eq!((code, elsewhere(&said)), (0, (4, 12)), "{said:#}");
    let words = gupfs(["check", &text(&town.store())]);
    let words = String::from_utf8(words.stdout).unwrap();
    let told = |line: &&str| {
        line.starts_with("not checked: ost")
            && line.ends_with("objects (name its directory with --ost DIR)")
    };
    assert_eq!(words.lines().filter(told).count(), 4, "{words}");

    let (code, said) = check(&town, &["--ost", &one, "--data"]);
    assert_eq!((code, elsewhere(&said).0), (0, 2), "{said:#}");
    let both = ["--ost", &one, "--ost", &other, "--data"];
    let (code, said) = check(&town, &both);
    assert_eq!((code, elsewhere(&said)), (0, (0, 0)), "{said:#}");
    assert_eq!(said["seen"]["objects"], 12);
    assert!(said["seen"]["bytes"].as_u64().unwrap() >= 12 * LARGE as u64);

    fs::remove_file(an_object(&town.osts(1))).unwrap();
    let (code, said) = check(&town, &both);
    assert_eq!(code, 1);
    assert_eq!(said["problems"][0]["kind"], "ObjectLost", "{said:#}");

    let store = text(&town.store());
    let refusal = |more: &[&str]| {
        let output = gupfs([&["check", &store], more].concat());
        refused(&output, &town.root())
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
    let foreign = Town::new(1, 0);
    let said = refusal(&["--ost", &text(&foreign.osts(0))]);
    assert!(said.contains("name only OSTs of this cluster"), "{said}");
    foreign.stop();
}
