//! A panic in any thread of a daemon ends the process with exit code 70, and clients continue after its restart.
//!
//! The test plants the panic from outside, like a debugger: it stops a thread in a system call, and makes it call
//! the function that `None.unwrap()` calls. The daemons know nothing of it.
#![cfg(target_arch = "x86_64")] // registers are set by hand

use crate::planted_panic::{Program, plant, threads};
use crate::running::{TestStore, can_mount, is_mounted};
use crate::test_cluster::{Daemon, TestCluster};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The exit code in docs/operate.md.
const PANICKED: i32 = 70;

/// One thread of each kind in a process. Threads whose names differ by a number are of one kind.
fn kinds(pid: u32) -> BTreeSet<String> {
    threads(pid)
        .into_iter()
        .map(|(_, name)| kind(&name))
        .collect()
}

fn kind(name: &str) -> String {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
        .to_string()
}

/// Plants a panic in one thread of each kind, each in another run of the daemon; calls `goes_on` after each restart.
fn each_kind(daemon: &mut Daemon, goes_on: &dyn Fn(usize)) {
    let program = Program::read();
    let kinds = kinds(daemon.pid());
    assert!(!kinds.is_empty());
    for (round, wanted) in kinds.iter().enumerate() {
        let all = threads(daemon.pid());
        // A short-lived thread, such as one of a pool, may not exist now.
        let Some((thread, name)) = all.into_iter().find(|(_, name)| kind(name) == *wanted) else {
            continue;
        };
        plant(&program, daemon.pid(), thread);
        assert_eq!(daemon.ends(), PANICKED, "a panic of thread '{name}'");
        daemon.start_again();
        goes_on(round);
    }
    eprintln!("panicked and went on: {kinds:?}");
}

fn write_and_read(mount: &Path, what: &str, round: usize) {
    let path = mount.join(format!("{what}{round}"));
    let bytes = vec![round as u8 + 1; 200_000];
    fs::write(&path, &bytes).unwrap();
    assert!(fs::read(&path).unwrap() == bytes, "{what}: {round}");
    let first = mount.join("first");
    assert!(fs::read(first).unwrap() == vec![9; 100_000]);
}

#[test]
fn a_panic_in_any_thread_of_a_server_ends_it_and_clients_continue_after_its_restart() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 1);
    let mount = cluster.mounts[0].at.clone();
    fs::write(mount.join("first"), vec![9; 100_000]).unwrap();
    each_kind(&mut cluster.mds, &|round| {
        write_and_read(&mount, "mds", round)
    });
    each_kind(&mut cluster.osses[0], &|round| {
        write_and_read(&mount, "oss", round)
    });
    cluster.stop();
}

#[test]
fn a_panic_of_a_mount_ends_it_and_frees_its_mount_point() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 1);
    let mount = cluster.mounts[0].at.clone();
    fs::write(mount.join("first"), vec![9; 100_000]).unwrap();
    each_kind(&mut cluster.mounts[0].daemon, &|round| {
        write_and_read(&mount, "mount", round);
    });
    cluster.stop();
}

#[test]
fn a_panic_in_one_process_with_all_roles_ends_it() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let program = Program::read();
    let mut lives = 1;
    let mut life = 0;
    while life < lives {
        let mut running = test_store.up();
        if life == 0 {
            fs::write(test_store.mnt().join("first"), vec![9; 100_000]).unwrap();
        }
        write_and_read(&test_store.mnt(), "up", life);
        let pid = running.pid().as_raw_nonzero().get() as u32;
        let kinds: Vec<String> = kinds(pid).into_iter().collect();
        lives = kinds.len();
        let wanted = &kinds[life];
        let mut all = threads(pid).into_iter();
        let (thread, name) = all.find(|(_, name)| kind(name) == *wanted).unwrap();
        plant(&program, pid, thread);
        assert_eq!(running.exit_code(), PANICKED, "a panic of thread '{name}'");
        drop(running);
        assert!(!is_mounted(&test_store.mnt()));
        life += 1;
    }
    let running = test_store.up();
    write_and_read(&test_store.mnt(), "up", life);
    assert_eq!(running.stop(), 0);
}
