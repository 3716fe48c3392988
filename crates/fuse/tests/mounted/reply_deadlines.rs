//! Replies that are sent before their handlers are done.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

use gupfs_fuse::{Errno, ReplyDeadlines};
use rustix::process::{Pid, Signal, kill_process};

use crate::gated_fs::GatedFs;
use crate::test_mount::{SOON, TestMount, config, errno, until};

/// Longer than the kernel's own work, and short enough for a test.
const DEADLINE: Duration = Duration::from_millis(400);

/// For the test of a retry, which waits for a twentieth of the deadline and up to one scan: ten times as long on a slow host is still
/// less than this.
const LONG_DEADLINE: Duration = Duration::from_secs(4);

/// One request regardless of its alignment, and long enough not to be copied by the handler.
const LONG: usize = 512 << 10;

fn gated_mount(deadline: Option<Duration>) -> Option<TestMount<GatedFs>> {
    let mut config = config();
    config.reply_deadlines = Some(ReplyDeadlines {
        deadline,
        overdue_errno: Errno::ETIMEDOUT,
        killed_errno: Errno::EINTR,
    });
    TestMount::new(GatedFs::new(), config)
}

fn writer(mount: &TestMount<GatedFs>, name: &str) -> File {
    OpenOptions::new()
        .write(true)
        .open(mount.path(name))
        .unwrap()
}

/// Starts `dd`, which waits at the gate. One request is to be held.
fn waiting_dd(mount: &TestMount<GatedFs>, args: &[String]) -> Child {
    let mut dd = Command::new("dd");
    dd.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    let child = dd.spawn().unwrap();
    // Another request that waits may be the close by a program that has ended.
    until("dd waits", || mount.fs.hold_next.load(SeqCst) == 0);
    child
}

fn write_args(mount: &TestMount<GatedFs>) -> Vec<String> {
    let to = format!("of={}", mount.path("file").display());
    vec![
        "if=/dev/zero".into(),
        to,
        "bs=64K".into(),
        "count=1".into(),
        "conv=notrunc".into(),
    ]
}

fn read_args(mount: &TestMount<GatedFs>) -> Vec<String> {
    vec![
        format!("if={}", mount.path("file").display()),
        "bs=64K".into(),
        "count=1".into(),
    ]
}

#[test]
fn a_request_past_its_deadline_returns_an_error_and_its_handler_goes_on() {
    let Some(mount) = gated_mount(Some(LONG_DEADLINE)) else {
        return;
    };
    let file = writer(&mount, "file");
    mount.fs.hold_next.store(1, SeqCst);
    let start = Instant::now();
    assert_eq!(errno(file.write_at(&[b'a'; 1000], 0)), libc::ETIMEDOUT);
    // Without the deadline, the abort of the mount would end it, with another error.
    assert!(start.elapsed() >= LONG_DEADLINE);
    assert_eq!(mount.session.counts().late, 1);
    // A retry waits behind the late write, for a shorter time, and is not executed.
    let start = Instant::now();
    assert_eq!(errno(file.write_at(&[b'b'; 1000], 0)), libc::ETIMEDOUT);
    assert!(start.elapsed() < LONG_DEADLINE, "{:?}", start.elapsed());
    assert_eq!(errno(file.sync_all()), libc::ETIMEDOUT);
    // Requests on other files and requests for attributes go on.
    assert_eq!(
        writer(&mount, "other").write_at(&[1; 1000], 0).unwrap(),
        1000
    );
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    mount.fs.gate.add_permits(1);
    until("the write is done", || mount.session.counts().late == 0);
    assert!(mount.fs.bytes.lock().unwrap().starts_with(&[b'a'; 1000]));
    assert_eq!(*mount.fs.log.lock().unwrap(), ["write"]);
    file.write_at(b"c", 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    until("nothing waits", || mount.session.counts().waiting == 0);
    until("all is closed", || mount.fs.is_balanced());
}

#[test]
fn a_later_request_does_not_overtake_a_late_write() {
    let Some(mount) = gated_mount(Some(DEADLINE)) else {
        return;
    };
    let (file, second) = (writer(&mount, "file"), writer(&mount, "file"));
    mount.fs.hold_next.store(1, SeqCst);
    assert_eq!(errno(file.write_at(&[b'a'; 4096], 0)), libc::ETIMEDOUT);
    thread::scope(|scope| {
        let retry = scope.spawn(|| second.write_at(&[b'b'; 4096], 0));
        // On a slow host its deadline may end the wait before this thread sees it.
        until("it waits", || {
            mount.session.counts().waiting == 2 || retry.is_finished()
        });
        assert!(mount.fs.log.lock().unwrap().is_empty());
        mount.fs.gate.add_permits(1);
        // If it had begun at once, the gate would not have stopped it.
        match retry.join().unwrap() {
            Ok(written) => assert_eq!(written, 4096),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ETIMEDOUT)),
        }
    });
    second.write_at(&[b'c'; 4096], 0).unwrap();
    let mut seen = [0; 4096];
    File::open(mount.path("file"))
        .unwrap()
        .read_exact_at(&mut seen, 0)
        .unwrap();
    assert!(seen == [b'c'; 4096]);
}

#[test]
fn a_file_is_released_after_its_late_write() {
    let Some(mount) = gated_mount(Some(DEADLINE)) else {
        return;
    };
    let file = writer(&mount, "file");
    mount.fs.hold_next.store(1, SeqCst);
    assert_eq!(errno(file.write_at(&[b'a'; 4096], 0)), libc::ETIMEDOUT);
    drop(file);
    thread::sleep(2 * DEADLINE);
    assert!(mount.fs.log.lock().unwrap().is_empty());
    mount.fs.gate.add_permits(1);
    until("it is closed", || mount.fs.is_balanced());
    assert_eq!(*mount.fs.log.lock().unwrap(), ["write", "release"]);
    until("nothing waits", || mount.session.counts().waiting == 0);
}

#[test]
fn resources_of_late_replies_are_released() {
    let Some(mount) = gated_mount(Some(DEADLINE)) else {
        return;
    };
    let timed_out = |result: std::io::Result<()>| assert_eq!(errno(result), libc::ETIMEDOUT);
    mount.fs.hold_next.store(1, SeqCst);
    timed_out(File::create(mount.path("made")).map(drop));
    // The directory has a late change: later requests on it do not begin.
    timed_out(fs::metadata(mount.path("file")).map(drop));
    mount.fs.gate.add_permits(1);
    until("created late", || mount.session.counts().late == 0);
    assert_eq!(*mount.fs.log.lock().unwrap(), ["create", "release"]);
    mount.fs.hold_next.store(1, SeqCst);
    let mut append = OpenOptions::new();
    append.read(true).custom_flags(libc::O_APPEND);
    timed_out(append.open(mount.path("file")).map(drop));
    mount.fs.hold_next.store(1, SeqCst);
    timed_out(fs::metadata(mount.path("slow to find")).map(drop));
    mount.fs.hold_next.store(1, SeqCst);
    let list = || fs::read_dir(mount.root())?.try_for_each(|entry| entry.map(drop));
    timed_out(list());
    assert_eq!(mount.session.counts().late, 3);
    mount.fs.gate.add_permits(3);
    until("nothing is late", || mount.session.counts().late == 0);
    assert!(mount.fs.is_balanced() && mount.fs.opened.load(SeqCst) == 2);
    // The kernel drops references that it has; it cannot drop those that it never got.
    fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
    until("all references are back", || {
        mount.fs.references_given.load(SeqCst) == mount.fs.forgotten.load(SeqCst)
    });
}

#[test]
fn the_payload_of_a_late_write_stays_unchanged() {
    let Some(mount) = gated_mount(Some(DEADLINE)) else {
        return;
    };
    let (file, other) = (writer(&mount, "file"), writer(&mount, "other"));
    mount.fs.hold_next.store(1, SeqCst);
    assert_eq!(errno(file.write_at(&vec![7; LONG], 0)), libc::ETIMEDOUT);
    // The kernel reuses its memory.
    for _ in 0..200 {
        other.write_at(&vec![8; LONG], 0).unwrap();
    }
    mount.fs.gate.add_permits(1);
    until("the write is done", || mount.session.counts().late == 0);
    assert!(
        mount.fs.bytes.lock().unwrap()[..LONG]
            .iter()
            .all(|byte| *byte == 7)
    );
}

#[test]
fn a_killed_program_ends_at_once_while_it_waits_for_a_reply() {
    let Some(mount) = gated_mount(None) else {
        return;
    };
    for args in [write_args(&mount), read_args(&mount)] {
        // The kernel does not turn ABRT, which writes a core image, into KILL. (dd catches INT.)
        for signal in [Signal::KILL, Signal::TERM, Signal::ABORT] {
            mount.fs.hold_next.store(1, SeqCst);
            let mut dd = waiting_dd(&mount, &args);
            let start = Instant::now();
            kill_process(Pid::from_child(&dd), signal).unwrap();
            assert_eq!(dd.wait().unwrap().signal(), Some(signal.as_raw()));
            assert!(start.elapsed() < SOON, "{signal:?}");
            assert!(mount.session.counts().late >= 1);
            mount.fs.gate.add_permits(1);
            until("nothing waits", || mount.session.counts().waiting == 0);
        }
    }
    until("all is closed", || mount.fs.is_balanced());
}

#[test]
fn a_caught_signal_ends_no_wait() {
    let Some(mount) = gated_mount(None) else {
        return;
    };
    let script = r"
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: None)
f = os.open(sys.argv[1], os.O_RDONLY)
sys.exit(os.read(f, 1)[0])
";
    let start = || {
        mount.fs.hold_next.store(1, SeqCst);
        let mut python = Command::new("python3");
        let child = python
            .arg("-c")
            .arg(script)
            .arg(mount.path("file"))
            .spawn()
            .unwrap();
        until("it waits", || mount.fs.hold_next.load(SeqCst) == 0);
        kill_process(Pid::from_child(&child), Signal::USR1).unwrap();
        thread::sleep(Duration::from_millis(300));
        assert_eq!(mount.session.counts().late, 0);
        child
    };
    let mut child = start();
    mount.fs.gate.add_permits(1);
    assert_eq!(child.wait().unwrap().code(), Some(i32::from(b'-')));
    // The kernel sends INTERRUPT only once, for the first signal.
    let mut child = start();
    let killed_at = Instant::now();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(killed_at.elapsed() < SOON, "{:?}", killed_at.elapsed());
    mount.fs.gate.add_permits(1);
    until("nothing waits", || mount.session.counts().waiting == 0);
}

#[test]
fn a_forced_unmount_ends_every_wait() {
    let Some(mount) = gated_mount(None) else {
        return;
    };
    mount.fs.hold_next.store(1, SeqCst);
    let mut dd = waiting_dd(&mount, &write_args(&mount));
    let start = Instant::now();
    // The unmount fails with "busy", but from here on every call fails, so nothing keeps the mount in use.
    let _ = Command::new("umount")
        .arg("-f")
        .arg(mount.root())
        .output()
        .unwrap();
    assert!(!dd.wait().unwrap().success());
    let _ = Command::new("umount")
        .arg("-l")
        .arg(mount.root())
        .output()
        .unwrap();
    mount.session.wait();
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    mount.fs.gate.add_permits(1);
    until("nothing waits", || mount.session.counts().waiting == 0);
}
