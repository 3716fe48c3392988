//! The life of a store: initialised, started, used, stopped, killed, restarted, monitored.

#![allow(clippy::disallowed_methods)] // a real process is waited for, in real time

mod running;

use expect_test::expect;
use gupfs_skips::{Need, skip};
use running::{TestStore, UpProcess, can_mount, gupfs, is_mounted, refused};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn about(test_store: &TestStore, args: &[&str]) -> Output {
    let (command, rest) = args.split_first().unwrap();
    let store = test_store.store();
    let mut all = vec![*command, store.to_str().unwrap()];
    all.extend(rest);
    gupfs(all)
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn clean(test_store: &TestStore) {
    let output = about(test_store, &["check", "--data"]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        printed(&output),
        refused(&output, &test_store.dir())
    );
}

#[test]
fn a_store_keeps_its_files_over_a_restart() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let running = test_store.up();
    assert!(running.ready.starts_with(&format!(
        "gupfs: mounted at {}, 2 OSTs, ready in ",
        test_store.mnt().display()
    )));
    fs::create_dir(test_store.mnt().join("dir")).unwrap();
    fs::write(test_store.mnt().join("dir/small"), "few bytes").unwrap();
    let large = vec![7u8; 6 << 20];
    fs::write(test_store.mnt().join("large"), &large).unwrap();
    assert_eq!(running.stop(), 0);
    assert!(!is_mounted(&test_store.mnt()));
    let key = fs::metadata(test_store.store().join("cluster.key")).unwrap();
    assert_eq!((key.permissions().mode() & 0o777, key.len()), (0o600, 32));
    clean(&test_store);

    let running = test_store.up();
    assert_eq!(
        fs::read(test_store.mnt().join("dir/small")).unwrap(),
        b"few bytes"
    );
    assert!(fs::read(test_store.mnt().join("large")).unwrap() == large);
    assert_eq!(running.stop(), 0);
}

#[test]
fn after_kill_9_every_acknowledged_change_exists_and_the_mount_point_is_free() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let running = test_store.up();
    let file = |n: usize| test_store.mnt().join(format!("f{n}"));
    for n in 0..50 {
        fs::write(file(n), vec![n as u8; n * 1000]).unwrap();
    }
    let held = fs::File::create(file(50)).unwrap();
    running.kill();
    drop(held);
    // The dead mount may still exist: the start removes it.
    let running = test_store.up();
    for n in 0..50 {
        assert!(
            fs::read(file(n)).unwrap() == vec![n as u8; n * 1000],
            "file {n}"
        );
    }
    assert!(file(50).exists());
    assert_eq!(running.stop(), 0);
    clean(&test_store);
}

#[test]
fn a_dead_mount_is_removed_at_the_next_start() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let running = test_store.up();
    // The mount watchdog dies, too: then nothing else removes the mount.
    let children = format!("/proc/{0}/task/{0}/children", running.pid());
    let watchdog: i32 = fs::read_to_string(children)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let watchdog = rustix::process::Pid::from_raw(watchdog).unwrap();
    rustix::process::kill_process(watchdog, Signal::KILL).unwrap();
    let mut child = running;
    child.child.kill().unwrap();
    child.child.wait().unwrap();
    assert!(
        is_mounted(&test_store.mnt()),
        "the mount is gone before the test unmounted it"
    );
    // While the kernel removes a ring, calls may fail with either of the other two.
    let begun = Instant::now();
    loop {
        let errno = fs::read_dir(test_store.mnt()).unwrap_err().raw_os_error();
        match errno {
            Some(libc::ENOTCONN) => break,
            Some(libc::ECONNABORTED | libc::ECANCELED) => {}
            other => panic!("{other:?}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{errno:?}");
    }
    let running = test_store.up();
    fs::write(test_store.mnt().join("x"), "y").unwrap();
    assert_eq!(running.stop(), 0);
}

#[test]
fn the_mount_watchdog_removes_the_mount_of_a_killed_process() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let mut running = test_store.up();
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    // Only the watchdog can have done it: dropping `running` does it later.
    let start = std::time::Instant::now();
    while is_mounted(&test_store.mnt()) {
        assert!(
            start.elapsed() < running::TIMEOUT,
            "the mount watchdog does not unmount"
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn an_interrupted_initialisation_is_started_again() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    assert_eq!(test_store.up().stop(), 0);
    // As after a crash before the last step.
    fs::rename(
        test_store.store().join("gupfs.toml"),
        test_store.store().join("gupfs.init"),
    )
    .unwrap();
    fs::write(test_store.store().join("gupfs.toml.new"), "half").unwrap();
    let running = test_store.up();
    fs::write(test_store.mnt().join("x"), "y").unwrap();
    assert_eq!(running.stop(), 0);
    assert!(!test_store.store().join("gupfs.init").exists());
    clean(&test_store);
    // As after a crash in the very first step.
    let other = TestStore::new();
    fs::create_dir(other.store()).unwrap();
    fs::write(other.store().join("gupfs.init.new"), "form").unwrap();
    assert_eq!(other.up().stop(), 0);
}

#[test]
fn osts_are_added_and_prepared_directories_are_used() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    for ost in ["ost0", "ost1", "ost2"] {
        fs::create_dir_all(test_store.store().join(ost)).unwrap();
    }
    let running = UpProcess::start(&test_store.store(), &test_store.mnt(), &[]);
    assert!(running.ready.contains(" 3 OSTs,"), "{}", running.ready);
    fs::write(test_store.mnt().join("before"), vec![1; 100_000]).unwrap();
    assert_eq!(running.stop(), 0);
    let running = UpProcess::start(&test_store.store(), &test_store.mnt(), &["--osts", "5"]);
    assert!(running.ready.contains(" 5 OSTs,"), "{}", running.ready);
    fs::write(test_store.mnt().join("after"), vec![2; 12 << 20]).unwrap();
    assert!(fs::read(test_store.mnt().join("before")).unwrap() == vec![1; 100_000]);
    assert_eq!(running.stop(), 0);
    clean(&test_store);
}

#[test]
fn a_mount_in_use_is_unmounted_only_after_a_second_signal() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let mut running = test_store.up();
    let held = fs::File::create(test_store.mnt().join("held")).unwrap();
    let stop = about(&test_store, &["stop"]);
    let me = format!("process {} (", std::process::id());
    assert_eq!(stop.status.code(), Some(1));
    let words = refused(&stop, &test_store.dir());
    assert!(
        words.contains(&me) && words.contains("has open 'DIR/mnt/held'"),
        "{words}"
    );
    running.signal(Signal::TERM);
    let line = running.line();
    assert!(
        line.contains("SIGTERM") && line.contains(&me) && line.contains("has open"),
        "{line}"
    );
    assert!(is_mounted(&test_store.mnt()));
    running.signal(Signal::TERM);
    assert_eq!(running.exit_code(), 0);
    assert!(!is_mounted(&test_store.mnt()));
    drop(held);
    clean(&test_store);
}

#[test]
fn a_mount_in_use_is_stopped_when_its_last_user_ends() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let mut running = test_store.up();
    let held = fs::File::create(test_store.mnt().join("held")).unwrap();
    running.signal(Signal::INT);
    assert!(running.line().contains("this process stops when they end"));
    drop(held);
    assert_eq!(running.exit_code(), 0);
}

#[test]
fn an_unmount_by_another_program_ends_the_process_cleanly() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let mut running = test_store.up();
    fs::write(test_store.mnt().join("x"), "y").unwrap();
    rustix::mount::unmount(test_store.mnt(), rustix::mount::UnmountFlags::empty()).unwrap();
    assert_eq!(running.exit_code(), 0);
    assert!(running.line().contains("unmounted by another program"));
    clean(&test_store);
}

#[test]
fn an_aborted_connection_ends_the_process_with_an_error() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let mut running = test_store.up();
    fs::write(test_store.mnt().join("x"), "y").unwrap();
    let device = fs::metadata(test_store.mnt()).unwrap().dev();
    let connection = rustix::fs::minor(device);
    fs::write(format!("/sys/fs/fuse/connections/{connection}/abort"), "1").unwrap();
    assert_eq!(running.exit_code(), 1);
    assert!(running.line().contains("the mount was aborted"));
    let errors = running.errors();
    assert!(
        errors.contains("another program aborted its connection"),
        "{errors}"
    );
    assert!(!is_mounted(&test_store.mnt()));
    clean(&test_store);
}

#[test]
fn a_process_that_did_not_run_for_long_ends_with_an_error() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let mut running = test_store.up();
    fs::write(test_store.mnt().join("x"), "y").unwrap();
    running.signal(Signal::STOP);
    let begun = Instant::now();
    while is_mounted(&test_store.mnt()) {
        assert!(
            begun.elapsed() < running::TIMEOUT,
            "the mount watchdog does not abort the mount"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    running.signal(Signal::CONT);
    assert_eq!(running.exit_code(), 1);
    assert!(running.line().contains("the mount was aborted"));
    let errors = running.errors();
    assert!(errors.contains("this process did not run for"), "{errors}");
    clean(&test_store);
}

/// nohup(1) is a promise that the end of the terminal does not end the program.
#[test]
fn a_hang_up_stops_the_process_unless_it_was_started_with_nohup() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let start = |words: &[&str]| {
        let mut command = Command::new("env");
        command.args(words).arg(env!("CARGO_BIN_EXE_gupfs"));
        UpProcess::try_start_by(command, &test_store.store(), &test_store.mnt(), &[]).unwrap()
    };
    let mut running = start(&["--ignore-signal=HUP"]);
    running.signal(Signal::HUP);
    // Enough for the process to begin its end, if it did.
    let status = about(&test_store, &["status"]);
    assert_eq!(status.status.code(), Some(0));
    running.signal(Signal::TERM);
    assert!(running.line().contains("SIGTERM: unmounted"));
    assert_eq!(running.exit_code(), 0);

    // The test itself may run under nohup. (A shell cannot undo that.)
    let mut running = start(&["--default-signal=HUP"]);
    running.signal(Signal::HUP);
    assert!(running.line().contains("SIGHUP: unmounted"));
    assert_eq!(running.exit_code(), 0);
}

#[test]
fn stop_ends_the_process_and_status_shows_whether_it_runs() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let mut running = test_store.up();
    let status = about(&test_store, &["status"]);
    assert_eq!(status.status.code(), Some(0));
    let text = printed(&status);
    for part in [
        "mount ",
        "client ",
        "metadata  serving",
        "ost0 ",
        "ost1 ",
        "waiting   no calls",
        "a new store",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    // Through the mount point as well as through the store.
    let mnt = test_store.mnt();
    let json = gupfs(["status", mnt.to_str().unwrap(), "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["running"], true);
    assert_eq!(json["pid"], running.child.id());
    assert_eq!(json["osts"].as_array().unwrap().len(), 2);
    let stop = about(&test_store, &["stop"]);
    assert_eq!((stop.status.code(), running.exit_code()), (Some(0), 0));
    let status = about(&test_store, &["status", "--json"]);
    assert_eq!(status.status.code(), Some(3));
    let json: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(
        (&json["running"], &json["osts"][1]["present"]),
        (&false.into(), &true.into())
    );
    let stop = about(&test_store, &["stop"]);
    expect![[r#"
        3
        gupfs stop: no process serves 'DIR/store'.
          → start it: gupfs up 'DIR/store' --mount MNT.
    "#]]
    .assert_eq(&refused(&stop, &test_store.dir()));
}

#[test]
fn df_and_layout_show_space_and_layouts() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let running = test_store.up();
    let at = |name: &str| test_store.mnt().join(name).to_str().unwrap().to_string();
    let size = |path| rustix::fs::statvfs(path).map(|found| found.f_blocks * found.f_frsize);
    assert_eq!(
        size(&test_store.mnt()),
        size(&test_store.store()),
        "two OSTs on one disk have its room once"
    );
    let free = |path| rustix::fs::statvfs(path).map(|found| found.f_bfree * found.f_frsize);
    let (mount, disk) = (
        free(&test_store.mnt()).unwrap(),
        free(&test_store.store()).unwrap(),
    );
    assert!(
        mount.abs_diff(disk) < 64 << 20,
        "what the disk keeps for others holds nothing: {mount}, {disk}"
    );
    fs::write(at("unsynced"), vec![1; 100_000]).unwrap();
    let synced: serde_json::Value =
        serde_json::from_str(&printed(&gupfs(["sync", &at("."), "--json"]))).unwrap();
    assert!(synced["change"].as_u64().unwrap() > 0, "{synced}");
    fs::create_dir(at("wide")).unwrap();
    let set = gupfs([
        "layout",
        "set",
        &at("wide"),
        "--count",
        "all",
        "--unit",
        "64KiB",
        "--first-component",
        "0",
    ]);
    expect![[r#"
        Default layout, set for this directory:
                 0 B … end        on all OSTs, in units of 64.0 KiB
    "#]]
    .assert_eq(&printed(&set));
    fs::create_dir(at("wide/below")).unwrap();
    let get = gupfs(["layout", "get", &at("wide/below")]);
    assert!(
        printed(&get).contains("all OSTs, in units of 64.0 KiB"),
        "{}",
        printed(&get)
    );
    fs::write(at("wide/file"), vec![1; 256 << 10]).unwrap();
    let get = gupfs(["layout", "get", "--json", &at("wide/file")]);
    let json: serde_json::Value = serde_json::from_slice(&get.stdout).unwrap();
    let objects = json["file"]["components"][0]["objects"].as_array().unwrap();
    let sizes: Vec<u64> = objects
        .iter()
        .map(|object| object["state"]["there"]["size"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes, [128 << 10, 128 << 10]);
    fs::write(at("wide/tiny"), "x").unwrap();
    let get = gupfs(["layout", "get", &at("wide/tiny")]);
    assert!(
        printed(&get).contains("are in the inode record"),
        "{}",
        printed(&get)
    );
    let set = gupfs(["layout", "set", &at("wide"), "--inherit"]);
    assert!(printed(&set).contains("inherited"), "{}", printed(&set));
    let set = gupfs(["layout", "set", &at("wide"), "--unit", "1000"]);
    assert_eq!(set.status.code(), Some(2));
    let df = about(&test_store, &["df", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&df.stdout).unwrap();
    assert_eq!(json["osts"].as_array().unwrap().len(), 2);
    assert_eq!(json["total"]["objects"], 3);
    assert_eq!(running.stop(), 0);
}

/// The limit is global: the test lowers it for a moment, then restores it or the value of the mount.
#[test]
fn a_mount_of_root_raises_the_pages_limit() {
    let knob = "/proc/sys/fs/fuse/max_pages_limit";
    let limit = || -> u16 { fs::read_to_string(knob).unwrap().trim().parse().unwrap() };
    if !can_mount() {
        return;
    }
    if !Path::new(knob).exists() {
        skip(Need::Kernel, format!("there is no {knob} on this host"));
        return;
    }
    let before = limit();
    if fs::write(knob, "256").is_err() {
        skip(Need::Kernel, format!("{knob} cannot be set"));
        return;
    }
    let test_store = TestStore::new();
    let running = test_store.up();
    let raised = limit();
    fs::write(knob, before.max(raised).to_string()).unwrap();
    assert_eq!(raised, 257);
    assert_eq!(running.stop(), 0);
}

#[test]
fn metrics_count_operations_and_bytes() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let running = UpProcess::start(
        &test_store.store(),
        &test_store.mnt(),
        &["--listen-metrics", &port.to_string()],
    );
    fs::write(test_store.mnt().join("x"), vec![1; 100_000]).unwrap();
    fs::create_dir(test_store.mnt().join("d")).unwrap();
    let page = http_get(&port.to_string(), "/metrics");
    check_exposition(&page);
    for sample in [
        "gupfs_operations_total{role=\"mount\",op=\"mkdir\"} 1",
        "gupfs_operations_total{role=\"mds\",op=\"mkdir\"} 1",
        "gupfs_bytes_total{role=\"mount\",direction=\"written\"} 100000",
        "gupfs_operation_seconds_count{role=\"mds\",op=\"mkdir\"} 1",
        "gupfs_ost_up{ost=\"1\"} 1",
    ] {
        assert!(
            page.lines().any(|line| line == sample),
            "no '{sample}' in\n{page}"
        );
    }
    let written: u64 = page
        .lines()
        .filter(|line| line.starts_with("gupfs_ost_bytes_total") && line.contains("written"))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(written, 100_000);
    assert_eq!(running.stop(), 0);
}

fn http_get(address: &str, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    body.to_string()
}

/// Checks the rules of Prometheus: one TYPE for each family, before its samples; samples of a family together; valid numbers.
fn check_exposition(page: &str) {
    let mut families: Vec<String> = Vec::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let name = rest.split(' ').next().unwrap().to_string();
            assert!(!families.contains(&name), "{name} has two types");
            families.push(name);
        } else if !line.starts_with('#') {
            let family = families.last().expect("a type comes first");
            assert!(
                line.starts_with(family.as_str()),
                "{line} stands below {family}"
            );
            let value = line.rsplit(' ').next().unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
}

#[test]
fn a_store_with_a_long_path_has_a_control_socket() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let deep = test_store.dir().join("d".repeat(100)).join("e".repeat(100));
    fs::create_dir_all(&deep).unwrap();
    let store = deep.join("store");
    let running = UpProcess::start(&store, &test_store.mnt(), &["--osts", "1"]);
    let status = gupfs(["status".as_ref(), store.as_os_str()]);
    assert_eq!(
        status.status.code(),
        Some(0),
        "{}",
        refused(&status, &test_store.dir())
    );
    assert_eq!(running.stop(), 0);
}

#[test]
fn events_are_json_if_asked() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let mut running = UpProcess::start(
        &test_store.store(),
        &test_store.mnt(),
        &["--osts", "1", "--json"],
    );
    let event = |line: &str| -> String {
        let json: serde_json::Value = serde_json::from_str(line).unwrap();
        json["event"].as_str().unwrap().to_string()
    };
    assert_eq!(event(&running.ready), "ready");
    running.signal(Signal::INT);
    assert_eq!(event(&running.line()), "stopping");
    assert_eq!(event(&running.line()), "stopped");
    assert_eq!(running.exit_code(), 0);
}

#[test]
fn lost_metadata_is_not_replaced_by_an_empty_name_space() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    assert_eq!(test_store.up().stop(), 0);
    for part in ["log", "index"] {
        let dir = test_store.store().join("mds").join(part);
        fs::remove_dir_all(&dir).unwrap();
        fs::create_dir(&dir).unwrap();
    }
    expect![[r#"
        exit status: 1
        gupfs up: 'DIR/store/mds/log' is empty: the metadata is missing.
          → if the metadata is on a separate disk, mount it; else restore the directory from a backup.
    "#]]
    .assert_eq(&test_store.refusal(&[]));
    assert!(
        Path::new(&test_store.store().join("mds/log"))
            .read_dir()
            .unwrap()
            .next()
            .is_none()
    );
}
