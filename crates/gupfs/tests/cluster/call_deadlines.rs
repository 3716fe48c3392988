//! Unreachable servers: calls fail instead of hanging, and nothing remains of them when the servers are back.

use crate::running::{STOP_TIMEOUT, TIMEOUT, can_mount, command, wait_until_unmounted};
use crate::test_cluster::{TestCluster, text};
use rustix::process::Signal;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(2);

/// Every call must end within its deadline and this time: more than a slow host needs, and less than the default deadline (60 s), the
/// timeout of heartbeats (25 s), and what the end of a process without servers takes (30 s).
const GRACE: Duration = Duration::from_secs(20);

/// A path needs several requests: Linux sends two for each known name, and programs open other files when they start.
const BY_PATH: Duration = Duration::from_secs(5 * DEADLINE.as_secs());

/// Long enough for an object: files up to 4 KiB are inline.
const LONG: usize = 300_000;

/// Returns the result of `work`, or fails after a timeout; a hanging thread is not joined.
fn within<T: Send + 'static>(
    time: Duration,
    what: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(run()));
    let printed = told.recv_timeout(time);
    printed.unwrap_or_else(|_| panic!("{what} takes longer than {time:?}"))
}

fn times_out<T: Send + 'static>(what: &str, run: impl FnOnce() -> io::Result<T> + Send + 'static) {
    times_out_within(DEADLINE, what, run);
}

fn times_out_within<T: Send + 'static>(
    time: Duration,
    what: &str,
    run: impl FnOnce() -> io::Result<T> + Send + 'static,
) {
    let outcome = within(time + GRACE, what, move || run().map(drop));
    let error = outcome.err().and_then(|error| error.raw_os_error());
    assert_eq!(error, Some(libc::ETIMEDOUT), "{what}");
}

/// Runs a program and returns its output.
fn program(line: &str) -> Child {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("exec {line}")])
        .env("LC_ALL", "C");
    let quiet = shell.stdin(Stdio::null()).stdout(Stdio::null());
    quiet.stderr(Stdio::piped()).spawn().unwrap()
}

fn program_times_out(line: &str) {
    let child = program(line);
    let output = within(BY_PATH + GRACE, line, move || {
        child.wait_with_output().unwrap()
    });
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{line}");
    assert!(
        printed.contains("Connection timed out"),
        "{line}: {printed}"
    );
}

/// Kills a waiting program and checks that it ends, although nothing else would end its call.
fn is_killed_at_once(mut child: Child, what: &str) {
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "{what} does not wait");
    child.kill().unwrap();
    within(GRACE, what, move || child.wait().unwrap());
}

/// Checks that no request is running and no file is open.
fn all_is_over(mount: &Path) {
    let begun = Instant::now();
    loop {
        let status = TestCluster::status_of(mount);
        let (mount, client) = (&status["mount"], &status["client"]);
        let waiting = client["waiting"].as_array().unwrap().len();
        if mount["late"] == 0 && waiting == 0 && client["open_files"] == 0 {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "{status:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn deadline(cluster: &mut TestCluster) -> std::path::PathBuf {
    cluster.mount_with(&["--deadline", "2s"])
}

#[test]
fn calls_fail_at_the_deadline_while_the_metadata_server_is_unreachable() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 0);
    let (a, b) = (deadline(&mut cluster), cluster.mount());
    fs::create_dir(a.join("d")).unwrap();
    for name in ["f", "d/f"] {
        fs::write(a.join(name), vec![1; LONG]).unwrap();
    }
    let file = OpenOptions::new().write(true).open(a.join("f")).unwrap();
    file.write_at(&[2; 10], 0).unwrap();
    cluster.mds.signal(Signal::STOP);
    let path = |name: &str| a.join(name);
    program_times_out(&format!("cat {}", text(&path("d/f"))));
    program_times_out(&format!("ls {}", text(&path("d"))));
    program_times_out(&format!("touch {}", text(&path("new"))));
    program_times_out(&format!("mkdir {}", text(&path("made"))));
    let name = path("d/f");
    times_out_within(BY_PATH, "unlink", move || fs::remove_file(name));
    times_out("fsync", move || file.sync_all());
    assert!(TestCluster::status_of(&a)["mount"]["late"].as_u64() > Some(0));
    cluster.mds.signal(Signal::CONT);
    all_is_over(&a);
    // Failed operations were executed or not; successful ones were executed; and everything works.
    for mount in [&a, &b] {
        let bytes = fs::read(mount.join("f")).unwrap();
        assert!(bytes[..10] == [2; 10] && bytes[10..] == vec![1; LONG - 10]);
    }
    let _ = fs::remove_file(a.join("new"));
    let _ = fs::remove_dir(a.join("made"));
    fs::remove_dir_all(b.join("d")).unwrap();
    fs::write(a.join("f"), "at last").unwrap();
    assert_eq!(fs::read(b.join("f")).unwrap(), b"at last");
    cluster.wait_until("purged", |status| status["mds"]["purging"] == 0);
    all_is_over(&a);
    cluster.stop();
}

#[test]
fn calls_fail_at_the_deadline_while_an_object_server_is_unreachable() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 0);
    let (a, b) = (deadline(&mut cluster), cluster.mount());
    fs::write(a.join("f"), vec![1; LONG]).unwrap();
    let file = OpenOptions::new().write(true).open(a.join("f")).unwrap();
    let again = file.try_clone().unwrap();
    let synced = file.try_clone().unwrap();
    cluster.osses[0].kill();
    times_out("write", move || file.write_at(&[2; LONG], 0));
    // It is still running: later requests have not begun.
    times_out("the second write", move || again.write_at(&[3; LONG], 0));
    times_out("fsync", move || synced.sync_all());
    program_times_out(&format!("cat {}", text(&a.join("f"))));
    let printed = crate::running::gupfs([Path::new("status"), &a]).stdout;
    let printed = String::from_utf8_lossy(&printed).into_owned();
    assert!(printed.contains("calls continue although"), "{printed}");
    assert!(printed.contains("write waits for ost"), "{printed}");
    // Others continue.
    within(GRACE, "what needs no object", {
        let a = a.clone();
        move || {
            fs::write(a.join("small"), "in its inode").unwrap();
            fs::rename(a.join("small"), a.join("renamed")).unwrap();
            assert_eq!(fs::read(a.join("renamed")).unwrap(), b"in its inode");
        }
    });
    cluster.osses[0].start_again();
    all_is_over(&a);
    // The first write was executed, the second was not; the next write determines the contents.
    for mount in [&a, &b] {
        assert!(fs::read(mount.join("f")).unwrap() == vec![2; LONG]);
    }
    let file = OpenOptions::new().write(true).open(a.join("f")).unwrap();
    file.write_at(&[4; LONG], 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert!(fs::read(b.join("f")).unwrap() == vec![4; LONG]);
    all_is_over(&a);
    cluster.stop();
}

#[test]
fn a_killed_program_does_not_wait_for_an_unreachable_server() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 0);
    let mount = cluster.mount_with(&["--deadline", "none"]);
    let path = |name: &str| text(&mount.join(name));
    fs::create_dir(mount.join("d")).unwrap();
    fs::write(mount.join("f"), vec![1; LONG]).unwrap();
    cluster.osses[0].signal(Signal::STOP);
    let reads = format!("cat {}", path("f"));
    is_killed_at_once(program(&reads), "read");
    let writes = format!(
        "dd if=/dev/zero of={} bs=300000 count=1 conv=notrunc",
        path("f")
    );
    is_killed_at_once(program(&writes), "write");
    cluster.osses[0].signal(Signal::CONT);
    all_is_over(&mount);
    assert!(fs::read(mount.join("f")).unwrap() == vec![0; LONG]);
    cluster.mds.signal(Signal::STOP);
    for line in ["ls", "touch", "mkdir", "rm"] {
        // Each in a separate directory: the kernel lets only one program at a time change a directory.
        let name = if line == "ls" {
            "d"
        } else {
            &format!("d/{line}")
        };
        is_killed_at_once(program(&format!("{line} {}", path(name))), line);
    }
    cluster.mds.signal(Signal::CONT);
    all_is_over(&mount);
    fs::remove_dir_all(mount.join("d")).unwrap();
    cluster.wait_until("purged", |status| status["mds"]["purging"] == 0);
    cluster.stop();
}

#[test]
fn a_forced_unmount_works_with_unreachable_servers() {
    if !can_mount() {
        return;
    }
    for how in [
        "umount -f",
        "umount -l",
        "gupfs stop --force",
        "two signals",
    ] {
        let mut cluster = TestCluster::new(1, 0);
        let mount = cluster.mount_with(&["--deadline", "none"]);
        fs::write(mount.join("f"), vec![1; LONG]).unwrap();
        let open = File::open(mount.join("f")).unwrap();
        cluster.mds.signal(Signal::STOP);
        cluster.osses[0].signal(Signal::STOP);
        let mut waits = program(&format!("cat {}", text(&mount.join("f"))));
        std::thread::sleep(Duration::from_millis(500));
        assert!(waits.try_wait().unwrap().is_none());
        let (begun, at) = (Instant::now(), text(&mount));
        match how {
            "two signals" => {
                cluster.mounts[0].daemon.signal(Signal::TERM);
                std::thread::sleep(Duration::from_secs(1));
                cluster.mounts[0].daemon.signal(Signal::TERM);
            }
            "gupfs stop --force" => {
                // The last output arrives when the process has ended.
                let mut stop = command();
                drop(stop.args(["stop", "--force", &at]).spawn().unwrap());
            }
            line => {
                let (program, flag) = line.split_once(' ').unwrap();
                let mut umount = Command::new(program);
                umount.args([flag, &at]);
                within(GRACE, how, move || umount.output().unwrap());
            }
        }
        if how == "umount -l" {
            // It is detached, and programs that use it continue to, until they are killed.
            wait_until_unmounted(&mount);
            waits.kill().unwrap();
            drop(open);
        }
        // It takes up to 5 s for the write-back; the end of the mount's process, after 30 s, would end it as well.
        within(GRACE, how, move || waits.wait().unwrap());
        eprintln!("{how}: {:?}", begun.elapsed());
        // It prints that it could not report everything.
        assert_eq!(cluster.mounts[0].daemon.ends(), 1, "{how}");
        eprintln!("{how}, the end: {:?}", begun.elapsed());
        assert!(begun.elapsed() < STOP_TIMEOUT, "{how}");
        wait_until_unmounted(&mount);
    }
}

#[test]
fn a_mount_that_dies_while_servers_are_unreachable_is_removed() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 0);
    let mount = cluster.mount_with(&["--deadline", "none"]);
    fs::write(mount.join("f"), vec![1; LONG]).unwrap();
    cluster.mds.signal(Signal::STOP);
    let mut waits = program(&format!("cat {}", text(&mount.join("f"))));
    std::thread::sleep(Duration::from_millis(500));
    assert!(waits.try_wait().unwrap().is_none());
    cluster.mounts[0].daemon.kill();
    let status = within(GRACE, "cat", move || waits.wait().unwrap());
    assert!(!status.success());
    wait_until_unmounted(&mount);
}
