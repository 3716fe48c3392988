//! Programs that wait for locks, and signals that end the wait.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::fs::FlockOperation;

use crate::faulty_fs::FaultyFs;
use crate::test_mount::{SOON, TestMount, config, memory, until};

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

fn waits_for_lock(mount: &TestMount<crate::memfs::MemFs>) -> Child {
    let before = mount.session.counts().waiting;
    let child = Command::new("flock")
        .arg(mount.path("file"))
        .arg("true")
        .spawn()
        .unwrap();
    until("the program waits for the lock", || {
        mount.session.counts().waiting == before + 1
    });
    child
}

#[test]
fn a_waiting_lock_is_granted_when_the_lock_is_released() {
    let Some(mount) = memory() else { return };
    let file = File::create(mount.path("file")).unwrap();
    rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
    let mut child = waits_for_lock(&mount);
    rustix::fs::flock(&file, FlockOperation::Unlock).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(mount.session.counts().waiting, 0);
}

#[test]
fn closing_a_file_releases_its_lock() {
    let Some(mount) = memory() else { return };
    let file = File::create(mount.path("file")).unwrap();
    rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
    let mut child = waits_for_lock(&mount);
    drop(file);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_program_that_waits_for_a_lock_can_be_killed() {
    let Some(mount) = memory() else { return };
    let file = File::create(mount.path("file")).unwrap();
    rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
    for which in [rustix::process::Signal::KILL, rustix::process::Signal::TERM] {
        let mut child = waits_for_lock(&mount);
        let start = Instant::now();
        signal(&child, which);
        assert_eq!(child.wait().unwrap().signal(), Some(which.as_raw()));
        assert!(start.elapsed() < SOON);
        until("nothing waits", || mount.session.counts().waiting == 0);
    }
    // The killed programs have not taken the lock.
    rustix::fs::flock(&file, FlockOperation::Unlock).unwrap();
    assert!(
        Command::new("flock")
            .arg("-n")
            .arg(mount.path("file"))
            .arg("true")
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn many_killed_programs_leave_no_pending_request() {
    let Some(mount) = TestMount::new(FaultyFs::new(), config()) else {
        return;
    };
    let mut children: Vec<Child> = (0..20)
        .map(|_| {
            let mut cat = Command::new("dd");
            cat.arg(format!("if={}", mount.path("waits for a signal").display()))
                .stdout(Stdio::null());
            cat.stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    until("all wait", || mount.session.counts().waiting == 20);
    for child in &mut children {
        signal(child, rustix::process::Signal::KILL);
        child.wait().unwrap();
    }
    assert_eq!(
        mount
            .fs
            .interrupts
            .load(std::sync::atomic::Ordering::Relaxed),
        20
    );
    until("nothing waits", || mount.session.counts().waiting == 0);
}

#[test]
fn byte_range_locks_belong_to_processes() {
    let Some(mount) = memory() else { return };
    let path = mount.path("file");
    fs::write(&path, "0123456789").unwrap();
    let script = r"
import fcntl, os, sys
f = open(sys.argv[1], 'r+b')
fcntl.lockf(f, fcntl.LOCK_EX, 5, 0)
if os.fork() == 0:
    g = open(sys.argv[1], 'r+b')
    fcntl.lockf(g, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 5)
    try:
        fcntl.lockf(g, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 4)
        os._exit(1)
    except OSError:
        os._exit(0)
_, status = os.wait()
sys.exit(status >> 8)
";
    let status = Command::new("python3")
        .arg("-c")
        .arg(script)
        .arg(&path)
        .status()
        .unwrap();
    assert!(status.success());
}
