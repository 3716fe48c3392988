//! Answers that are given before their handlers are done.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

use gupfs_fuse::{Errno, InTime};
use rustix::process::{Pid, Signal, kill_process};

use crate::gated::Gated;
use crate::rig::{Rig, config, errno, until};

/// Longer than the kernel's own work, shorter than anybody minds.
const DEADLINE: Duration = Duration::from_millis(400);

/// One request, wherever it begins in a page, and long enough not to be copied by the handler.
const LONG: usize = 512 << 10;

fn gated(deadline: Option<Duration>) -> Option<Rig<Gated>> {
    let mut config = config();
    config.in_time = Some(InTime {
        deadline,
        overdue: Errno::ETIMEDOUT,
        killed: Errno::EINTR,
    });
    Rig::new(Gated::new(), config)
}

fn writer(rig: &Rig<Gated>, name: &str) -> File {
    OpenOptions::new().write(true).open(rig.path(name)).unwrap()
}

/// `dd` that writes into the file and waits there.
fn waiting_dd(rig: &Rig<Gated>, args: &[String]) -> Child {
    let before = rig.session.counts().waiting;
    let mut dd = Command::new("dd");
    dd.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    let child = dd.spawn().unwrap();
    until("dd waits", || rig.session.counts().waiting == before + 1);
    child
}

fn write_args(rig: &Rig<Gated>) -> Vec<String> {
    let to = format!("of={}", rig.path("file").display());
    vec![
        "if=/dev/zero".into(),
        to,
        "bs=64K".into(),
        "count=1".into(),
        "conv=notrunc".into(),
    ]
}

fn read_args(rig: &Rig<Gated>) -> Vec<String> {
    vec![
        format!("if={}", rig.path("file").display()),
        "bs=64K".into(),
        "count=1".into(),
    ]
}

#[test]
fn past_the_deadline_a_program_gets_an_error_and_what_it_asked_goes_on() {
    let Some(rig) = gated(Some(DEADLINE)) else {
        return;
    };
    let file = writer(&rig, "file");
    rig.fs.hold.store(1, SeqCst);
    let start = Instant::now();
    assert_eq!(errno(file.write_at(&[b'a'; 1000], 0)), libc::ETIMEDOUT);
    assert!(start.elapsed() >= DEADLINE && start.elapsed() < 3 * DEADLINE);
    assert_eq!(rig.session.counts().late, 1);
    // Who tries again waits behind it, not as long, and has done nothing.
    let start = Instant::now();
    assert_eq!(errno(file.write_at(&[b'b'; 1000], 0)), libc::ETIMEDOUT);
    assert!(start.elapsed() < DEADLINE, "{:?}", start.elapsed());
    assert_eq!(errno(file.sync_all()), libc::ETIMEDOUT);
    // Others go on, and so does who only looks.
    assert_eq!(writer(&rig, "other").write_at(&[1; 1000], 0).unwrap(), 1000);
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    rig.fs.gate.add_permits(1);
    until("the write is done", || rig.session.counts().late == 0);
    assert!(rig.fs.bytes.lock().unwrap().starts_with(&[b'a'; 1000]));
    assert_eq!(*rig.fs.log.lock().unwrap(), ["write"]);
    file.write_at(b"c", 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    until("nothing waits", || rig.session.counts().waiting == 0);
    until("all is closed", || rig.fs.is_even());
}

#[test]
fn what_comes_after_a_late_write_does_not_overtake_it() {
    let Some(rig) = gated(Some(DEADLINE)) else {
        return;
    };
    let (file, second) = (writer(&rig, "file"), writer(&rig, "file"));
    rig.fs.hold.store(1, SeqCst);
    assert_eq!(errno(file.write_at(&[b'a'; 4096], 0)), libc::ETIMEDOUT);
    thread::scope(|scope| {
        let again = scope.spawn(|| second.write_at(&[b'b'; 4096], 0));
        until("it waits", || rig.session.counts().waiting == 2);
        assert!(rig.fs.log.lock().unwrap().is_empty());
        rig.fs.gate.add_permits(1);
        // Had it been begun at once, nothing would have held it.
        match again.join().unwrap() {
            Ok(written) => assert_eq!(written, 4096),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ETIMEDOUT)),
        }
    });
    second.write_at(&[b'c'; 4096], 0).unwrap();
    let mut seen = [0; 4096];
    File::open(rig.path("file"))
        .unwrap()
        .read_exact_at(&mut seen, 0)
        .unwrap();
    assert!(seen == [b'c'; 4096]);
}

#[test]
fn a_file_is_closed_after_what_was_late_of_it() {
    let Some(rig) = gated(Some(DEADLINE)) else {
        return;
    };
    let file = writer(&rig, "file");
    rig.fs.hold.store(1, SeqCst);
    assert_eq!(errno(file.write_at(&[b'a'; 4096], 0)), libc::ETIMEDOUT);
    drop(file);
    thread::sleep(2 * DEADLINE);
    assert!(rig.fs.log.lock().unwrap().is_empty());
    rig.fs.gate.add_permits(1);
    until("it is closed", || rig.fs.is_even());
    assert_eq!(*rig.fs.log.lock().unwrap(), ["write", "release"]);
    until("nothing waits", || rig.session.counts().waiting == 0);
}

#[test]
fn what_nobody_got_is_given_back() {
    let Some(rig) = gated(Some(DEADLINE)) else {
        return;
    };
    let timed_out = |result: std::io::Result<()>| assert_eq!(errno(result), libc::ETIMEDOUT);
    rig.fs.hold.store(1, SeqCst);
    timed_out(File::create(rig.path("made")).map(drop));
    // The directory has a late change: what follows does not begin.
    timed_out(fs::metadata(rig.path("file")).map(drop));
    rig.fs.gate.add_permits(1);
    until("created late", || rig.session.counts().late == 0);
    assert_eq!(*rig.fs.log.lock().unwrap(), ["create", "release"]);
    rig.fs.hold.store(1, SeqCst);
    let mut append = OpenOptions::new();
    append.read(true).custom_flags(libc::O_APPEND);
    timed_out(append.open(rig.path("file")).map(drop));
    rig.fs.hold.store(1, SeqCst);
    timed_out(fs::metadata(rig.path("slow to find")).map(drop));
    rig.fs.hold.store(1, SeqCst);
    let list = || fs::read_dir(rig.root())?.try_for_each(|entry| entry.map(drop));
    timed_out(list());
    assert_eq!(rig.session.counts().late, 3);
    rig.fs.gate.add_permits(3);
    until("nothing is late", || rig.session.counts().late == 0);
    assert!(rig.fs.is_even() && rig.fs.opened.load(SeqCst) == 2);
    // The kernel gives back what it has when the mount ends; what it never got it cannot give.
    fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
    until("all references are back", || {
        rig.fs.given.load(SeqCst) == rig.fs.forgotten.load(SeqCst)
    });
}

#[test]
fn a_payload_that_is_late_stays_what_it_was() {
    let Some(rig) = gated(Some(DEADLINE)) else {
        return;
    };
    let (file, other) = (writer(&rig, "file"), writer(&rig, "other"));
    rig.fs.hold.store(1, SeqCst);
    assert_eq!(errno(file.write_at(&vec![7; LONG], 0)), libc::ETIMEDOUT);
    // The kernel uses its memory again.
    for _ in 0..200 {
        other.write_at(&vec![8; LONG], 0).unwrap();
    }
    rig.fs.gate.add_permits(1);
    until("the write is done", || rig.session.counts().late == 0);
    assert!(
        rig.fs.bytes.lock().unwrap()[..LONG]
            .iter()
            .all(|byte| *byte == 7)
    );
}

#[test]
fn a_killed_program_ends_at_once_whatever_it_waits_for() {
    let Some(rig) = gated(None) else { return };
    for args in [write_args(&rig), read_args(&rig)] {
        // Of ABRT, which leaves a core image, the kernel makes no KILL. (dd catches INT.)
        for signal in [Signal::KILL, Signal::TERM, Signal::ABORT] {
            rig.fs.hold.store(1, SeqCst);
            let mut dd = waiting_dd(&rig, &args);
            let start = Instant::now();
            kill_process(Pid::from_child(&dd), signal).unwrap();
            assert_eq!(dd.wait().unwrap().signal(), Some(signal.as_raw()));
            assert!(start.elapsed() < Duration::from_secs(1), "{signal:?}");
            assert!(rig.session.counts().late >= 1);
            rig.fs.gate.add_permits(1);
            until("nothing waits", || rig.session.counts().waiting == 0);
        }
    }
    until("all is closed", || rig.fs.is_even());
}

#[test]
fn a_signal_that_is_caught_ends_no_wait() {
    let Some(rig) = gated(None) else { return };
    let script = r"
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: None)
f = os.open(sys.argv[1], os.O_RDONLY)
sys.exit(os.read(f, 1)[0])
";
    let start = || {
        rig.fs.hold.store(1, SeqCst);
        let mut python = Command::new("python3");
        let child = python
            .arg("-c")
            .arg(script)
            .arg(rig.path("file"))
            .spawn()
            .unwrap();
        until("it waits", || rig.session.counts().waiting == 1);
        kill_process(Pid::from_child(&child), Signal::USR1).unwrap();
        thread::sleep(Duration::from_millis(300));
        assert_eq!(rig.session.counts().late, 0);
        child
    };
    let mut child = start();
    rig.fs.gate.add_permits(1);
    assert_eq!(child.wait().unwrap().code(), Some(i32::from(b'-')));
    // INTERRUPT comes only once, for the first signal.
    let mut child = start();
    let begun = Instant::now();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    rig.fs.gate.add_permits(1);
    until("nothing waits", || rig.session.counts().waiting == 0);
}

#[test]
fn a_forced_unmount_ends_every_wait() {
    let Some(rig) = gated(None) else { return };
    rig.fs.hold.store(1, SeqCst);
    let mut dd = waiting_dd(&rig, &write_args(&rig));
    let start = Instant::now();
    // Busy, but from here on every call fails; then nothing keeps it.
    let _ = Command::new("umount")
        .arg("-f")
        .arg(rig.root())
        .output()
        .unwrap();
    assert!(!dd.wait().unwrap().success());
    let _ = Command::new("umount")
        .arg("-l")
        .arg(rig.root())
        .output()
        .unwrap();
    rig.session.wait();
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
    rig.fs.gate.add_permits(1);
    until("nothing waits", || rig.session.counts().waiting == 0);
}
