//! Members of mirrored files are in different failure domains that an administrator has named, and a whole one may be lost.

use crate::lost_osts::osts_of;
use crate::mirrored_files::{
    check, set_mirrored, wait_until_all_targets_are_up, wait_until_full, write,
};
use crate::running::{can_mount, command, gupfs};
use crate::test_cluster::{TestCluster, text};
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;

const RECORDS: u64 = 60;

/// How often each stripe of the file has a member on one of these OSTs, and the number of its objects.
fn objects_on(path: &Path, osts: &[u64]) -> (usize, usize) {
    let output = command()
        .args(["layout", "get", "--json"])
        .arg(path)
        .output();
    let layout: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let components = layout["file"]["components"].as_array().unwrap();
    let objects = (components.iter()).flat_map(|it| it["objects"].as_array().unwrap());
    let objects: Vec<u64> = objects.map(|it| it["ost"].as_u64().unwrap()).collect();
    let there = objects.iter().filter(|ost| osts.contains(ost));
    (there.count(), objects.len())
}

fn restart(cluster: &mut TestCluster, oss: usize, more: &[&str]) {
    cluster.osses[oss].kill();
    cluster.osses[oss].start_again_with(more);
}

fn wait_for_domains(cluster: &TestCluster, expected: &[(&str, &[u64])]) {
    cluster.wait_until("in these domains", |status| {
        let domains = status["mds"]["domains"].as_array().unwrap();
        domains.len() == expected.len()
            && (domains.iter().zip(expected)).all(|(domain, (name, osts))| {
                let has_osts = domain["osts"] == serde_json::json!(osts);
                domain["name"].as_str().unwrap().starts_with(name) && has_osts
            })
    });
}

#[test]
fn copies_are_in_different_racks_and_a_rack_is_switched_off() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(4, 1);
    let a = cluster.mounts[0].at.clone();
    fs::create_dir(a.join("kept")).unwrap();
    set_mirrored(&a.join("kept"));
    wait_until_all_targets_are_up(&a.join("kept"));
    let racks = ["left", "left", "left", "right"];
    let osts: Vec<Vec<u64>> = (0..4).map(|oss| osts_of(&cluster, oss)).collect();
    let (left, right) = (osts[..3].concat(), osts[3].clone());
    for (oss, rack) in racks.iter().enumerate() {
        restart(&mut cluster, oss, &["--domain", rack]);
    }
    wait_for_domains(&cluster, &[("left", &left), ("right", &right)]);
    wait_until_all_targets_are_up(&a.join("kept"));
    let make = |name: String| {
        let path = a.join("kept").join(name);
        write(&File::create_new(&path).unwrap(), 0..RECORDS);
        let (on_right, all) = objects_on(&path, &right);
        // One member of each stripe.
        assert_eq!(on_right * 2, all, "{path:?}");
        path
    };
    let mut files: Vec<_> = (0..8).map(|i| make(format!("f{i}"))).collect();

    // As many copies as there are racks, and not as there are servers.
    let set = command()
        .args(["layout", "set", "--redundancy", "mirror:3"])
        .arg(&a)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&set.stderr);
    assert_eq!(set.status.code(), Some(1), "{said}");
    assert!(
        said.contains(
            "there are 2: left (ost0, ost1, ost2, ost3, ost4, ost5) · right (ost6, ost7)"
        ),
        "{said}"
    );
    let shown = gupfs(["status", &text(&cluster.store())]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("\ndomains   left (ost0,"), "{shown}");

    // A metadata server that has not heard of two of the servers knows where they are.
    cluster.mds.kill();
    for oss in [1, 3] {
        cluster.osses[oss].kill();
    }
    cluster.mds.start_again();
    cluster.wait_until("up in part", |status| {
        let targets = status["mds"]["targets"].as_array().unwrap();
        targets.iter().filter(|it| it["is_up"] == true).count() == 4
    });
    files.push(make("while down".into()));
    wait_for_domains(&cluster, &[("left", &left), ("right", &right)]);
    for oss in [1, 3] {
        cluster.osses[oss].start_again_with(&["--domain", racks[oss]]);
    }
    files.iter().for_each(|path| wait_until_full(path));
    for path in &files {
        File::open(path).unwrap().sync_all().unwrap();
    }
    for oss in 0..3 {
        cluster.osses[oss].kill();
    }
    for path in &files {
        check(path, RECORDS);
    }
    // Without names each server is a domain again.
    for oss in 0..4 {
        restart(&mut cluster, oss, &[]);
    }
    cluster.wait_until("without names", |status| {
        status["mds"]["domains"].as_array().unwrap().is_empty()
    });
    let refused = gupfs(["oss", &text(&cluster.osts(0)), "--domain", "a b"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        said.contains("'a b' is not a name of a failure domain"),
        "{said}"
    );
}
