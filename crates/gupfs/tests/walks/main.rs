//! docs/walks against the code: the functions that the pages name exist, and they run in the order of the page.

#![allow(clippy::disallowed_methods)] // real processes run in real time

#[path = "../running/mod.rs"]
mod running;

mod cluster;
mod page;
mod trace;

use cluster::Cluster;
use page::{Step, first_occurrences, pages, project, references, traced_steps};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

#[test]
fn walks_lead_through_functions_that_exist() {
    let mut wrong = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let steps = references(&text);
        assert!(steps.len() > 5, "{} leads nowhere", page.display());
        for step in steps.iter().filter(|step| !step.exists()) {
            wrong.push(format!("{}: {step}", page.display()));
        }
    }
    assert!(
        wrong.is_empty(),
        "these do not exist:\n{}",
        wrong.join("\n")
    );
}

/// Every page is compared with a trace by one of the tests below.
#[test]
fn every_walk_is_traced() {
    let traced = [
        "concurrent-write.md",
        "create.md",
        "fsync.md",
        "lease-revocation.md",
        "lost-ost.md",
        "read-again.md",
        "read.md",
        "recall.md",
        "stat-again.md",
        "unlink.md",
        "write-behind.md",
        "write-over-tcp.md",
        "write.md",
    ];
    let names = pages();
    let names: Vec<_> = names
        .iter()
        .map(|page| page.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(names, traced);
}

/// The functions of the page ran, in its order. What other pages tell in detail, this one may leave out.
fn compare(page: &str, taken: &[Step]) {
    let steps = steps_of(page);
    let taken = of_one_request(&steps, taken);
    let taken: Vec<Step> = taken
        .into_iter()
        .filter(|step| steps.contains(step))
        .collect();
    compare_with(page, &steps, &taken);
}

/// The same, and the page names every traced function that ran.
fn compare_whole(page: &str, taken: &[Step]) {
    let steps = steps_of(page);
    compare_with(page, &steps, &of_one_request(&steps, taken));
}

/// Without the requests that the kernel sends first, for example to look up a name again: the steps from the request on that leads to
/// the page's first step beyond the crate `fuse`. Each step stands where it came first.
fn of_one_request(steps: &[Step], taken: &[Step]) -> Vec<Step> {
    let marker = steps
        .iter()
        .find(|step| !step.file.starts_with("crates/fuse/"));
    let marker = taken
        .iter()
        .position(|step| Some(step) == marker)
        .unwrap_or(0);
    let is_arrival = |step: &Step| step.function == "handle_device_message";
    let from = taken[..marker].iter().rposition(is_arrival).unwrap_or(0);
    first_occurrences(taken[from..].iter().cloned())
}

fn steps_of(page: &str) -> Vec<Step> {
    let text = std::fs::read_to_string(project().join("docs/walks").join(page)).unwrap();
    let steps = traced_steps(&text);
    assert!(
        steps.len() >= 6,
        "{page} names only {} traced functions",
        steps.len()
    );
    steps
}

fn compare_with(page: &str, steps: &[Step], taken: &[Step]) {
    let lines = |steps: &[Step]| {
        steps
            .iter()
            .map(Step::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert!(
        steps == taken,
        "docs/walks/{page} says:\n{}\n\nthe trace says:\n{}",
        lines(steps),
        lines(taken)
    );
}

fn create(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .unwrap()
}

/// A file that has objects and, in the process that writes it, the write lease.
fn written(path: &Path) -> File {
    let file = create(path);
    file.write_all_at(&vec![1; 64 << 10], 0).unwrap();
    file
}

#[test]
fn a_write_goes_as_its_walk_says() {
    if !running::can_mount() {
        return;
    }
    let cluster = Cluster::in_one_process();
    let file = create(&cluster.mounts[0].join("file"));
    file.write_all_at(&vec![1; 6 << 20], 0).unwrap();
    let bytes = vec![2; 1 << 20];
    let taken = cluster
        .traces
        .during(|| file.write_all_at(&bytes, 4_194_000).unwrap());
    compare_whole("write.md", &taken);
}

#[test]
fn a_write_over_tcp_goes_as_its_walk_says() {
    if !running::can_mount() {
        return;
    }
    let cluster = Cluster::over_tcp(1);
    let file = written(&cluster.mounts[0].join("file"));
    let taken = cluster.traces.during(|| {
        file.write_all_at(&[2; 128 << 10], 4 << 10).unwrap();
    });
    compare("write-over-tcp.md", &taken);
}

#[test]
fn a_write_behind_goes_as_its_walk_says() {
    if !running::can_mount() {
        return;
    }
    let cluster = Cluster::over_tcp(1);
    let file = written(&cluster.mounts[0].join("file"));
    let write_behind = Step::new("crates/client/src/file/write_behind.rs", "write");
    // The client must have seen the target's space within the last second.
    for _ in 0..50 {
        file.write_all_at(&[2; 4 << 10], 0).unwrap();
        let taken = cluster.traces.during(|| {
            file.write_all_at(&[2; 4 << 10], 4 << 10).unwrap();
            std::thread::sleep(Duration::from_millis(200));
        });
        if taken.contains(&write_behind) {
            return compare("write-behind.md", &taken);
        }
    }
    panic!("every write went to the object server at once");
}

#[test]
fn a_read_goes_as_its_walk_says() {
    if !running::can_mount() {
        return;
    }
    let cluster = Cluster::in_one_process();
    let path = cluster.mounts[0].join("file");
    drop(written(&path));
    // Without the kernel's page cache, so that the read reaches the worker.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(0o40000)
        .open(&path)
        .unwrap();
    let mut buffer = [0; 4 << 10];
    let taken = cluster.traces.during(|| {
        file.read_exact_at(&mut buffer, 8 << 10).unwrap();
    });
    assert_eq!(buffer, [1; 4 << 10]);
    compare("read.md", &taken);
}

#[test]
fn a_create_goes_as_its_walk_says() {
    if !running::can_mount() {
        return;
    }
    let cluster = Cluster::in_one_process();
    let path = cluster.mounts[0].join("new");
    // The kernel remembers that the name is free.
    assert!(!path.exists());
    let mut file = None;
    let taken = cluster.traces.during(|| file = Some(create(&path)));
    compare_whole("create.md", &taken);
}

#[test]
fn a_fsync_goes_as_its_walk_says() {
    if !running::can_mount() {
        return;
    }
    let cluster = Cluster::in_one_process();
    let file = written(&cluster.mounts[0].join("file"));
    let taken = cluster.traces.during(|| file.sync_all().unwrap());
    compare("fsync.md", &taken);
}

#[test]
fn an_unlink_goes_as_its_walk_says() {
    if !running::can_mount() {
        return;
    }
    let cluster = Cluster::in_one_process();
    let path = cluster.mounts[0].join("file");
    drop(written(&path));
    let taken = cluster
        .traces
        .during(|| std::fs::remove_file(&path).unwrap());
    compare("unlink.md", &taken);
}

/// A writes; B asks for the size, and then appends; A reads that.
#[test]
fn a_recall_goes_as_its_walk_says() {
    if !running::can_mount() {
        return;
    }
    let cluster = Cluster::over_tcp(2);
    let paths = [0, 1].map(|mount| cluster.mounts[mount].join("file"));
    let a = written(&paths[0]);
    let mut b = OpenOptions::new().append(true).open(&paths[1]).unwrap();
    a.write_all_at(b"more", 64 << 10).unwrap();
    let mut byte = [0];
    let taken = cluster.traces.during(|| {
        // By the descriptor: a path would have the kernel ask for directories first.
        assert_eq!(b.metadata().unwrap().len(), (64 << 10) + 4);
        b.write_all(b"!").unwrap();
        a.read_exact_at(&mut byte, (64 << 10) + 4).unwrap();
    });
    assert_eq!(byte, *b"!");
    compare("recall.md", &taken);
}

/// A has written, then B; now A writes again.
#[test]
fn a_concurrent_write_goes_as_its_walk_says() {
    if !running::can_mount() {
        return;
    }
    let cluster = Cluster::over_tcp(2);
    let paths = [0, 1].map(|mount| cluster.mounts[mount].join("file"));
    let a = written(&paths[0]);
    let b = OpenOptions::new().write(true).open(&paths[1]).unwrap();
    b.write_all_at(b"some", 0).unwrap();
    // Within a second: otherwise the lease just goes back.
    let soon = Duration::from_millis(150);
    let taken = cluster.traces.during_soon(soon, || {
        a.write_all_at(b"more", 64 << 10).unwrap();
    });
    compare("concurrent-write.md", &taken);
}

/// An object server dies for ever while a program writes a file with two copies.
#[test]
fn the_loss_of_an_ost_goes_as_its_walk_says() {
    if !running::can_mount() {
        return;
    }
    let mut cluster = Cluster::with_servers(3, 1);
    let dir = cluster.mounts[0].clone();
    let mut set = running::command();
    set.args(["layout", "set", "--redundancy", "mirror:2", "--count", "1"]);
    let set = set.arg(&dir).output().unwrap();
    assert!(set.status.success(), "{set:?}");
    let file = written(&dir.join("file"));
    file.sync_all().unwrap();
    let lost = layout(&dir.join("file"))[1].0;
    // Target and server have the same number here.
    cluster.kill_server(lost as usize);
    let declare = |cluster: &Cluster| {
        let mut declare = running::command();
        declare.args(["ost", "lost", &lost.to_string(), "--yes"]);
        declare.args(&cluster.mds).output().unwrap()
    };
    let taken = cluster.traces.during(|| {
        file.write_all_at(b"more", 64 << 10).unwrap();
        drop(file);
        let begun = std::time::Instant::now();
        while !declare(&cluster).status.success() {
            assert!(begun.elapsed() < running::TIMEOUT);
            std::thread::sleep(Duration::from_millis(300));
        }
        while (layout(&dir.join("file")).iter())
            .any(|(ost, state)| *ost == lost || state == "stale")
        {
            assert!(begun.elapsed() < running::TIMEOUT);
            std::thread::sleep(Duration::from_millis(300));
        }
    });
    compare("lost-ost.md", &taken);
}

/// The objects of a file's only component: OST and state.
fn layout(path: &Path) -> Vec<(u64, serde_json::Value)> {
    let mut get = running::command();
    let got = get.args(["layout", "get", "--json"]).arg(path).output();
    let shown: serde_json::Value = serde_json::from_slice(&got.unwrap().stdout).unwrap();
    let objects = shown["file"]["components"][0]["objects"]
        .as_array()
        .unwrap();
    let of =
        |object: &serde_json::Value| (object["ost"].as_u64().unwrap(), object["state"].clone());
    objects.iter().map(of).collect()
}

/// A changes the mode; B, which knew the file, asks for its attributes twice.
#[test]
fn a_stat_again_goes_as_its_walk_says() {
    if !running::can_mount() {
        return;
    }
    let (cluster, a, b) = known_to_both();
    set_mode(&a, 0o600);
    let taken = cluster.traces.during(|| {
        assert_eq!(mode(&b), 0o600);
        assert_eq!(mode(&b), 0o600);
        assert!(cluster.mounts[1].join("file").exists());
    });
    compare("stat-again.md", &taken);
}

#[test]
fn reads_in_order_go_as_their_walk_says() {
    if !running::can_mount() {
        return;
    }
    const RECORD: usize = 4096;
    let cluster = Cluster::over_tcp(2);
    std::fs::write(cluster.mounts[0].join("file"), vec![7; 100 * RECORD]).unwrap();
    let file = File::open(cluster.mounts[1].join("file")).unwrap();
    let taken = cluster.traces.during(|| {
        let mut record = [0; RECORD];
        for number in 0..3 {
            file.read_exact_at(&mut record, number * RECORD as u64)
                .unwrap();
            assert_eq!(record, [7; RECORD]);
        }
    });
    compare("read-again.md", &taken);
}

#[test]
fn a_revocation_of_leases_goes_as_its_walk_says() {
    if !running::can_mount() {
        return;
    }
    let (cluster, a, b) = known_to_both();
    let taken = cluster.traces.during(|| {
        set_mode(&a, 0o600);
        assert_eq!(mode(&b), 0o600);
    });
    compare("lease-revocation.md", &taken);
}

/// Two mounts that have the same small file open, and leases on its attributes.
fn known_to_both() -> (Cluster, File, File) {
    let cluster = Cluster::over_tcp(2);
    std::fs::write(cluster.mounts[0].join("file"), "some").unwrap();
    let [a, b] = [0, 1].map(|mount| File::open(cluster.mounts[mount].join("file")).unwrap());
    assert_eq!(mode(&a), mode(&b));
    (cluster, a, b)
}

fn set_mode(file: &File, mode: u32) {
    let permissions = std::fs::Permissions::from_mode(mode);
    file.set_permissions(permissions).unwrap();
}

fn mode(file: &File) -> u32 {
    file.metadata().unwrap().mode() & 0o777
}
