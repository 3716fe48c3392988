//! Leases on metadata: a mount answers what it has read before without a request, and no mount shows an older state than another.

use crate::running::can_mount;
use crate::test_cluster::TestCluster;
use rustix::process::Signal;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Finished requests of the metadata server by operation, but renewals of sessions, and statfs, which no lease answers.
fn requests(cluster: &TestCluster) -> Vec<(String, u64)> {
    let status = cluster.status();
    let ops = status["mds"]["ops"].as_array().unwrap();
    let done = ops
        .iter()
        .map(|op| (op["op"].as_str().unwrap(), op["done"].as_u64().unwrap()));
    let counted = done.filter(|(op, _)| !["renew", "statfs"].contains(op));
    counted.map(|(op, done)| (op.to_string(), done)).collect()
}

fn make_tree(root: &Path) {
    for dir in ["tree", "tree/one", "tree/two"] {
        let dir = root.join(dir);
        fs::create_dir(&dir).unwrap();
        for number in 0..20 {
            fs::write(dir.join(format!("f{number}")), format!("{number}")).unwrap();
        }
        symlink("f1", dir.join("link")).unwrap();
    }
}

/// Runs what looks at a tree; returns what it printed.
fn look(root: &Path) -> String {
    let tree = root.join("tree");
    let mut printed = String::new();
    for (program, args) in [
        ("find", &["-ls"][..]),
        ("ls", &["-lR", "--time-style=full-iso"]),
        (
            "sh",
            &["-c", "cat */f* f*; test -r f1; stat f2 absent 2>&1"],
        ),
    ] {
        let output = Command::new(program)
            .args(args)
            .current_dir(&tree)
            .output()
            .unwrap();
        printed.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    printed
}

#[test]
fn a_mount_answers_what_it_has_read_before_without_a_request() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 2);
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    make_tree(a);
    // The first reads make the access times later than the other times.
    std::thread::sleep(Duration::from_millis(1_100));
    for _ in 0..3 {
        look(b);
    }
    let before = requests(&cluster);
    let seen = look(b);
    assert!(seen.lines().count() > 100, "{seen}");
    assert_eq!(requests(&cluster), before);
    let counted = &TestCluster::status_of(b)["client"]["counted"];
    assert!(counted["lease_hits"].as_u64().unwrap() > 500, "{counted}");
    cluster.stop();
}

/// The first `ls -l` of what another mount has made: a request for each page of the listing, and none for an entry, its ACL or its label.
#[test]
fn a_first_listing_with_attributes_takes_a_request_for_each_page() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 2);
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    let dir = a.join("large");
    fs::create_dir(&dir).unwrap();
    for number in 0..2_000 {
        fs::File::create(dir.join(format!("f{number}"))).unwrap();
    }
    let all = || requests(&cluster).iter().map(|(_, done)| done).sum::<u64>();
    // The releases of the new files' write leases.
    let mut settled = all();
    loop {
        std::thread::sleep(Duration::from_millis(200));
        match all() {
            now if now == settled => break,
            now => settled = now,
        }
    }
    let output = Command::new("ls")
        .args(["-l", "--context"])
        .arg(b.join("large"))
        .output()
        .unwrap();
    let lines = String::from_utf8_lossy(&output.stdout).lines().count();
    assert!(lines >= 2_000, "{output:?}");
    let taken = all() - settled;
    assert!(taken <= 20, "{taken} requests");
    cluster.stop();
}

/// open(2) checks permissions right after the file is made, with the attributes that the reply to the creation has.
#[test]
fn creating_a_file_takes_no_request_for_its_attributes() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 1);
    let at = &cluster.mounts[0].at;
    // Not the root: its own attributes come by no lookup, and change with each of its files.
    let dir = at.join("d");
    fs::create_dir(&dir).unwrap();
    let before = attribute_requests(at);
    for number in 0..100 {
        let path = dir.join(format!("f{number}"));
        let mut file = fs::File::create_new(&path).unwrap();
        file.write_all(b"some bytes").unwrap();
        assert_eq!(rustix::fs::fstat(&file).unwrap().st_size, 10);
        drop(file);
    }
    // One for each fstat(2).
    let taken = attribute_requests(at) - before;
    assert!(taken <= 130, "{taken} requests");
    cluster.stop();
}

/// The names of a directory are leased with the reply to its mkdir, and stay leased while this mount alone changes them. Nor does the mount
/// ask for security.capability of a file that it has made, which Linux reads at a chown.
#[test]
fn a_mount_looks_up_no_name_in_a_directory_that_it_has_made() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 2);
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    let lookups = || {
        let counted = requests(&cluster).into_iter();
        let lookups = counted.filter(|(op, _)| ["lookup", "getxattr"].contains(&op.as_str()));
        lookups.map(|(_, done)| done).sum::<u64>()
    };
    let dir = a.join("new");
    fs::create_dir(&dir).unwrap();
    let before = lookups();
    for number in 0..50 {
        let file = dir.join(format!("f{number}"));
        // Synced: after a close alone the release of the write lease is under way for a moment, and the mount asks.
        let mut open = fs::File::create_new(&file).unwrap();
        open.write_all(format!("{number}").as_bytes()).unwrap();
        open.sync_all().unwrap();
        drop(open);
        chown(&file, Some(0), Some(0)).unwrap();
        assert!(!dir.join(format!("absent{number}")).exists());
        fs::hard_link(&file, dir.join(format!("l{number}"))).unwrap();
        fs::remove_file(&file).unwrap();
        assert!(!file.exists());
    }
    assert_eq!(lookups(), before);
    // Another mount changes the names: from then on the first one asks.
    let (made, removed) = ("absent7", "l9");
    fs::write(b.join("new").join(made), "b").unwrap();
    fs::remove_file(b.join("new").join(removed)).unwrap();
    assert!(dir.join(made).exists() && !dir.join(removed).exists());
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 50);
    cluster.stop();
}

/// Requests of the kernel for attributes, as a mount counts them.
fn attribute_requests(mount: &Path) -> u64 {
    let status = TestCluster::status_of(mount);
    let operations = status["mount"]["operations"].as_array().unwrap();
    let counted = operations.iter().filter(|counted| counted[0] == "getattr");
    counted.map(|counted| counted[1].as_u64().unwrap()).sum()
}

#[test]
fn the_kernel_keeps_the_attributes_of_an_open_file_until_any_mount_changes_them() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 2);
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    fs::create_dir(a.join("d")).unwrap();
    fs::write(a.join("d/file"), "x").unwrap();
    let held = fs::File::open(b.join("d/file")).unwrap();
    let seen = || {
        // fstat(2): the standard library asks for the time of creation, too, which Linux does not cache.
        let stat = rustix::fs::fstat(&held).unwrap();
        (stat.st_size, stat.st_mode & 0o777)
    };
    let first = seen();
    let before = attribute_requests(b);
    for _ in 0..100 {
        assert_eq!(seen(), first);
    }
    assert_eq!(attribute_requests(b), before);
    // Inline data, and then objects.
    for length in [2, 100, 5_000, 300_000] {
        for changed in [a, b] {
            let path = changed.join("d/file");
            for (length, mode) in [(length, 0o640), (length + 1, 0o600)] {
                fs::write(&path, vec![b'x'; length]).unwrap();
                assert_eq!(seen().0, length as i64);
                fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
                assert_eq!(seen(), (length as i64, mode));
                fs::File::options()
                    .append(true)
                    .open(&path)
                    .and_then(|mut file| file.write_all(b"more"))
                    .unwrap();
                assert_eq!(seen(), (length as i64 + 4, mode));
            }
        }
    }
    let kept = &TestCluster::status_of(b)["client"]["kernel_attributes"];
    assert!(kept.as_u64().unwrap() > 0, "{kept}");
    drop(held);
    cluster.stop();
}

#[test]
fn a_mount_shows_each_change_of_another_at_once() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 2);
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    make_tree(a);
    look(b);
    let (there, here) = (a.join("tree/one"), b.join("tree/one"));
    let names = |dir: &Path| {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    for round in 0..30u32 {
        let text = format!("f{}", round % 10);
        let (changed, seen) = (there.join(&text), here.join(&text));
        let mode = 0o600 | (round % 8);
        fs::set_permissions(&changed, Permissions::from_mode(mode)).unwrap();
        assert_eq!(fs::metadata(&seen).unwrap().mode() & 0o777, mode);
        fs::write(&changed, format!("round {round}")).unwrap();
        assert_eq!(fs::read_to_string(&seen).unwrap(), format!("round {round}"));
        let (moved, moved_here) = (there.join("moved"), here.join("moved"));
        assert!(!moved_here.exists());
        fs::rename(&changed, &moved).unwrap();
        assert!(moved_here.exists() && !seen.exists());
        assert_eq!(names(&here), names(&there));
        fs::rename(&moved_here, &seen).unwrap();
        assert!(changed.exists() && !moved.exists());
        fs::hard_link(&changed, &moved).unwrap();
        assert_eq!(fs::metadata(&seen).unwrap().nlink(), 2);
        fs::remove_file(&moved_here).unwrap();
        assert_eq!(fs::metadata(&changed).unwrap().nlink(), 1);
        assert_eq!(names(&here), names(&there));
    }
    cluster.stop();
}

/// A mount that does not run cannot give up its leases: changes wait until its term is over, and then it shows nothing old.
#[test]
fn a_stopped_mount_delays_a_change_for_its_term_and_shows_nothing_old_afterwards() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 2);
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    make_tree(a);
    look(b);
    let of_b = &cluster.mounts[1].daemon;
    of_b.signal(Signal::STOP);
    let begun = Instant::now();
    fs::set_permissions(a.join("tree/f1"), Permissions::from_mode(0o601)).unwrap();
    let delay = begun.elapsed();
    fs::remove_file(a.join("tree/f2")).unwrap();
    of_b.signal(Signal::CONT);
    assert_eq!(
        fs::metadata(b.join("tree/f1")).unwrap().mode() & 0o777,
        0o601
    );
    assert!(!b.join("tree/f2").exists());
    // 23 s and what a busy host adds; `crates/client/tests/it/leases.rs` has the exact term.
    assert!(delay < Duration::from_secs(60), "{delay:?}");
    assert!(delay > Duration::from_secs(10), "{delay:?}");
    assert_eq!(look(b), look(a));
    cluster.stop();
}
