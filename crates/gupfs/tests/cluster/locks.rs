//! Locks of real programs on two mounts behave as on one host.

use crate::running::{TIMEOUT, can_mount};
use crate::test_cluster::{TestCluster, text};
use gupfs_conform::{Exception, Filter, run};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A short Python program that locks a file.
fn python(lines: &str, file: &Path, more: &[&str]) -> Child {
    let mut python = Command::new("python3");
    python.args(["-c", lines, &text(file)]).args(more);
    python.stdout(Stdio::piped()).spawn().unwrap()
}

/// Waits for its output.
fn hear(child: &mut Child) -> String {
    let mut line = String::new();
    let printed = child.stdout.as_mut().unwrap();
    BufReader::new(printed).read_line(&mut line).unwrap();
    line.trim().to_string()
}

const HOLD: &str = r"
import fcntl, sys, time
f = open(sys.argv[1], 'r+b')
lock = fcntl.flock if sys.argv[2] == 'flock' else fcntl.lockf
lock(f, fcntl.LOCK_EX)
print('has it', flush=True)
time.sleep(1000)
";

const TRY: &str = r"
import fcntl, sys
f = open(sys.argv[1], 'r+b')
lock = fcntl.flock if sys.argv[2] == 'flock' else fcntl.lockf
try:
    lock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print('has it')
except BlockingIOError:
    print('is refused')
";

/// Repeatedly reads a number, adds one, and writes it, under the lock.
const COUNT: &str = r"
import fcntl, os, sys
lock = fcntl.flock if sys.argv[2] == 'flock' else fcntl.lockf
fd = os.open(sys.argv[1], os.O_RDWR)
for i in range(int(sys.argv[3])):
    if i % 10 == 9:
        # Closing frees as well.
        os.close(fd)
        fd = os.open(sys.argv[1], os.O_RDWR)
    lock(fd, fcntl.LOCK_EX)
    count = int(os.pread(fd, 100, 0))
    os.pwrite(fd, b'%d' % (count + 1), 0)
    if i % 10 != 8:
        lock(fd, fcntl.LOCK_UN)
";

const KINDS: [&str; 2] = ["flock", "records"];

fn outcome(file: &Path, kind: &str) -> String {
    let mut child = python(TRY, file, &[kind]);
    let printed = hear(&mut child);
    assert!(child.wait().unwrap().success());
    printed
}

fn until(what: &str, patience: Duration, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < patience, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn waits_for_locks(cluster: &TestCluster) -> usize {
    let status = cluster.status();
    let waits = status["mds"]["waits"].as_array().unwrap();
    waits.iter().filter(|wait| wait["op"] == "lock").count()
}

#[test]
fn a_lock_of_one_mount_excludes_the_others_until_its_program_ends() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 2);
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    for kind in KINDS {
        std::fs::write(a.join(kind), "0").unwrap();
        let mut holder = python(HOLD, &a.join(kind), &[kind]);
        assert_eq!(hear(&mut holder), "has it");
        for mount in [a, b] {
            assert_eq!(outcome(&mount.join(kind), kind), "is refused", "{kind}");
        }
        holder.kill().unwrap();
        holder.wait().unwrap();
        let file = b.join(kind);
        until("free", Duration::from_secs(10), || {
            outcome(&file, kind) == "has it"
        });
    }
    cluster.wait_until("free", |status| status["mds"]["locks"] == 0);
    cluster.stop();
}

#[test]
fn a_wait_for_a_lock_is_listed_and_ends_with_a_signal_or_the_lock() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 2);
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    std::fs::write(a.join("f"), "0").unwrap();
    let mut holder = python(HOLD, &a.join("f"), &["flock"]);
    assert_eq!(hear(&mut holder), "has it");
    let wait = || {
        let child = Command::new("flock").arg(b.join("f")).arg("true").spawn();
        let child = child.unwrap();
        until("waits", Duration::from_secs(20), || {
            waits_for_locks(&cluster) == 1
        });
        child
    };
    for signal in [Signal::TERM, Signal::KILL] {
        let mut waiting = wait();
        let begun = Instant::now();
        kill_process(Pid::from_child(&waiting), signal).unwrap();
        assert_eq!(waiting.wait().unwrap().signal(), Some(signal.as_raw()));
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?}",
            begun.elapsed()
        );
        until("nobody waits", Duration::from_secs(10), || {
            waits_for_locks(&cluster) == 0
        });
    }
    let mut waiting = wait();
    assert_eq!(waiting.try_wait().unwrap(), None);
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(waiting.wait().unwrap().success());
    cluster.stop();
}

#[test]
fn a_count_under_a_lock_is_exact_also_while_the_metadata_server_is_killed() {
    if !can_mount() {
        return;
    }
    const ROUNDS: usize = 60;
    let mut cluster = TestCluster::new(1, 2);
    let mounts: Vec<_> = cluster
        .mounts
        .iter()
        .map(|mount| mount.at.clone())
        .collect();
    for kind in KINDS {
        std::fs::write(mounts[0].join(kind), "0").unwrap();
        let count = |number: usize| {
            let file = mounts[number % 2].join(kind);
            python(COUNT, &file, &[kind, &ROUNDS.to_string()])
        };
        let counting: Vec<Child> = (0..4).map(count).collect();
        for pause in [700, 1_500] {
            std::thread::sleep(Duration::from_millis(pause));
            cluster.mds.kill();
            std::thread::sleep(Duration::from_millis(pause / 3));
            cluster.mds.start_again();
        }
        for mut child in counting {
            assert!(child.wait().unwrap().success(), "{kind}");
        }
        for mount in &mounts {
            let counted = std::fs::read_to_string(mount.join(kind)).unwrap();
            assert_eq!(counted, (4 * ROUNDS).to_string(), "{kind}");
        }
    }
    cluster.wait_until("free", |status| status["mds"]["locks"] == 0);
    cluster.stop();
}

#[test]
fn locks_of_a_dead_mount_are_released_after_its_term() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 2);
    let (a, b) = (cluster.mounts[0].at.clone(), cluster.mounts[1].at.clone());
    std::fs::write(a.join("f"), "0").unwrap();
    let mut holder = python(HOLD, &a.join("f"), &["records"]);
    assert_eq!(hear(&mut holder), "has it");
    cluster.mounts[0].daemon.kill();
    let mut waiting = python(HOLD, &b.join("f"), &["records"]);
    let begun = Instant::now();
    assert_eq!(hear(&mut waiting), "has it");
    let waited = begun.elapsed();
    assert!(waited > Duration::from_secs(10), "{waited:?}");
    // Other tests check the term by the simulated clock; here the lock may only not stay held.
    assert!(waited < TIMEOUT, "{waited:?}");
    for child in [&mut holder, &mut waiting] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    cluster.mounts.remove(0);
    cluster.stop();
}

#[test]
fn locks_on_a_shared_mount_conform_to_posix() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 2);
    let late = |check: &str| Exception {
        check: check.into(),
        reason: "the kernel lets nobody wait until it is known that an open file is gone".into(),
        sometimes: true,
    };
    let filter = Filter {
        only: ["flock/", "fcntl/", "ofd-lock/"].map(String::from).into(),
        exceptions: vec![
            late("flock/ends-with-the-process"),
            late("flock/a-forked-child-shares-the-lock"),
            late("ofd-lock/closing-another-descriptor-does-not-free-it"),
        ],
        ..Filter::default()
    };
    let report = run(&cluster.mounts[1].at, &filter).unwrap();
    println!("{report}");
    let failed: Vec<&str> = report.failures().map(|tried| tried.name.as_str()).collect();
    assert_eq!(failed, Vec::<&str>::new());
    cluster.wait_until("free", |status| status["mds"]["locks"] == 0);
    cluster.stop();
}
