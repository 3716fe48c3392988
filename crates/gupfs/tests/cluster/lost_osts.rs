//! An object server and its disks are lost for ever: mirrored files lose nothing, and get their second copies back; other files with bytes
//! there fail at once.

use crate::mirrored_files::{check, content, set_mirrored, wait_until_all_targets_are_up, write};
use crate::running::{TIMEOUT, can_mount, command};
use crate::test_cluster::{TestCluster, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

/// Mirrored files, each of this many records: more than the first component of a layout.
const FILES: usize = 6;
const RECORDS: u64 = 60;

/// Less than any deadline.
const AT_ONCE: Duration = Duration::from_secs(5);

/// The OSTs of an object server.
pub fn osts_of(cluster: &TestCluster, oss: usize) -> Vec<u64> {
    let at = cluster.osses[oss].served_at();
    let status = cluster.status();
    let targets = status["mds"]["targets"].as_array().unwrap();
    let its_own = targets.iter().filter(|target| target["address"] == *at);
    let osts: Vec<u64> = its_own
        .filter_map(|target| target["ost"].as_u64())
        .collect();
    assert_eq!(osts.len(), 2, "{at}: {status:#}");
    osts
}

fn declare_lost(cluster: &TestCluster, ost: u64, more: &[&str]) -> Output {
    let (ost, key) = (ost.to_string(), cluster.key());
    let args = ["ost", "lost", &ost, "--mds", &cluster.at, "--key", &key];
    command().args(args).args(more).output().unwrap()
}

/// Declares an OST lost; returns the paths of the files that have lost bytes.
fn lost_files(cluster: &TestCluster, ost: u64) -> BTreeSet<String> {
    let output = declare_lost(cluster, ost, &["--yes", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = lines.pop().unwrap();
    assert_eq!(last["ost"], ost);
    assert_eq!(last["files"], lines.len());
    let paths = lines
        .iter()
        .map(|line| line["path"].as_str().unwrap().to_owned());
    paths.collect()
}

fn run_at_once<T>(what: &Path, run: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = run();
    assert!(begun.elapsed() < AT_ONCE, "{what:?}: {:?}", begun.elapsed());
    result
}

/// Returns when no object of the file is stale, and none is on these OSTs.
pub fn wait_until_redundant(path: &Path, lost: &[u64]) {
    let begun = Instant::now();
    loop {
        let args = ["layout", "get", "--json"];
        let output = command().args(args).arg(path).output().unwrap();
        let layout: Value = serde_json::from_slice(&output.stdout).unwrap();
        let components = layout["file"]["components"].as_array().unwrap();
        let objects = components
            .iter()
            .flat_map(|it| it["objects"].as_array().unwrap());
        let is_good = |object: &Value| {
            object["state"] != "stale" && !lost.iter().any(|ost| object["ost"] == *ost)
        };
        if objects.into_iter().all(is_good) {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "{layout:#}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn the_loss_of_a_disk_costs_no_byte_of_mirrored_files_and_no_wait() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(3, 2);
    let (a, b) = (cluster.mounts[0].at.clone(), cluster.mounts[1].at.clone());
    fs::create_dir(a.join("kept")).unwrap();
    set_mirrored(&a.join("kept"));
    wait_until_all_targets_are_up(&a.join("kept"));
    let kept: Vec<PathBuf> = (0..FILES)
        .map(|i| Path::new("kept").join(format!("f{i}")))
        .collect();
    for path in &kept {
        let file = File::create_new(a.join(path)).unwrap();
        write(&file, 0..RECORDS);
        file.sync_all().unwrap();
    }
    fs::create_dir(a.join("plain")).unwrap();
    let plain: Vec<PathBuf> = (0..12)
        .map(|i| Path::new("plain").join(format!("p{i}")))
        .collect();
    for (path, number) in plain.iter().zip(0..) {
        fs::write(a.join(path), content(number)).unwrap();
        File::open(a.join(path)).unwrap().sync_all().unwrap();
    }

    // Not an OST that serves, nor one that was never there.
    let lost = osts_of(&cluster, 0);
    let refused = declare_lost(&cluster, lost[0], &[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("serves") && said.contains("--yes"), "{said}");
    let refused = declare_lost(&cluster, 99, &["--yes"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("no target with this number"), "{said}");

    // A file that stays open for writing gets its copies back, too.
    let held = OpenOptions::new().write(true).open(a.join(&kept[1]));
    let held = held.unwrap();
    write(&held, 0..1);
    cluster.osses[0].kill();
    fs::remove_dir_all(cluster.osts(0)).unwrap();
    let mut told = BTreeSet::new();
    for ost in &lost {
        told.extend(lost_files(&cluster, *ost));
    }
    // Exactly the files that cannot be read, and all at once.
    let mut lost_paths = Vec::new();
    for (path, number) in plain.iter().zip(0..) {
        match run_at_once(path, || fs::read(b.join(path))) {
            Ok(found) => assert!(found == content(number), "{path:?}"),
            Err(error) => {
                assert_eq!(
                    error.raw_os_error(),
                    Some(rustix::io::Errno::IO.raw_os_error()),
                    "{path:?}"
                );
                lost_paths.push(path);
            }
        }
    }
    let cannot_be_read: BTreeSet<String> = lost_paths
        .iter()
        .map(|path| format!("/{}", text(path)))
        .collect();
    assert_eq!(told, cannot_be_read);
    assert!(lost_paths.len() > 1 && lost_paths.len() < plain.len());
    let truncated = a.join(lost_paths[0]);
    run_at_once(&truncated, || {
        OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&truncated)
    })
    .unwrap();
    for path in &lost_paths {
        run_at_once(path, || fs::remove_file(a.join(path))).unwrap();
    }
    cluster.wait_until("freed", |status| status["mds"]["purging"] == 0);

    // Each mirrored file gets its second copy back, and then survives the next loss.
    for path in &kept {
        check(&b.join(path), RECORDS);
    }
    for path in &kept {
        wait_until_redundant(&a.join(path), &lost);
    }
    write(&held, 1..2);
    cluster.wait_until("counted as redundant", |status| {
        let [replacement, resync] = ["replacement", "resync"].map(|task| &status["mds"][task]);
        replacement["files_replaced"].as_u64() > Some(0)
            && replacement["files_left"] == 0
            && resync["files_left"] == 0
            && resync["bytes_copied"].as_u64() > Some(0)
    });
    cluster.osses[1].kill();
    for path in &kept {
        check(&a.join(path), RECORDS);
        check(&b.join(path), RECORDS);
    }
    let file = OpenOptions::new()
        .write(true)
        .open(a.join(&kept[0]))
        .unwrap();
    write(&file, 20..30);
    file.sync_all().unwrap();
    drop(file);
    check(&b.join(&kept[0]), RECORDS);
    held.sync_all().unwrap();
    cluster.osses[1].start_again();
}
