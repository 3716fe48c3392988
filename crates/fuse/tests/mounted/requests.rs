//! The paths of a request through this crate.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use gupfs_fuse::{Spawner, pages_limit};

use crate::faulty_fs::FaultyFs;
use crate::test_mount::{TestMount, config, errno, have_fuse, until};

fn faulty_mount() -> Option<TestMount<FaultyFs>> {
    TestMount::new(FaultyFs::new(), config())
}

fn read(mount: &TestMount<FaultyFs>, name: &str, size: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    let count = File::open(mount.path(name))?.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    Ok(bytes)
}

#[test]
fn a_handler_that_panics_replies_eio_and_the_next_request_is_served() {
    let Some(mount) = faulty_mount() else { return };
    // More often than there are workers.
    for _ in 0..20 {
        assert_eq!(errno(read(&mount, "panics", 10)), libc::EIO);
        assert_eq!(errno(read(&mount, "panics later", 10)), libc::EIO);
    }
    assert_eq!(read(&mount, "plain", 3).unwrap(), b"...");
    until("nothing waits", || mount.session.counts().waiting == 0);
}

#[test]
fn each_mib_is_one_request_wherever_the_buffer_begins() {
    // Raises the limit like a mounting program that is permitted to.
    if let Err(error) = pages_limit::raise(config().max_pages) {
        gupfs_skips::skip(
            gupfs_skips::Need::Kernel,
            format!("fs.fuse.max_pages_limit cannot be raised: {error}"),
        );
        return;
    }
    let Some(mount) = faulty_mount() else { return };
    let file = File::open(mount.path("plain")).unwrap();
    let (mib, page) = (1 << 20, 4096);
    let mut memory = vec![0; 3 * mib + 2 * page];
    let aligned = memory.as_ptr().align_offset(page);
    for past in [0, 16, page - 1] {
        let piece = &mut memory[aligned + past..][..3 * mib];
        assert_eq!(file.read_at(piece, 0).unwrap(), 3 * mib);
        let reads = std::mem::take(&mut *mount.fs.reads.lock().unwrap());
        let each = [0, 1, 2].map(|number| (number * mib as u64, mib as u32));
        assert_eq!(
            reads, each,
            "for a buffer {past} bytes after a page boundary"
        );
    }
}

#[test]
fn slow_requests_do_not_delay_other_requests() {
    let Some(mount) = faulty_mount() else { return };
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| assert_eq!(read(&mount, "slow", 2).unwrap(), b"ss"));
        }
        assert_eq!(read(&mount, "plain", 3).unwrap(), b"...");
    });
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    let counts = mount.session.counts();
    assert_eq!(counts.parked, 40);
    assert!(counts.requests > 80);
    until("nothing waits", || mount.session.counts().waiting == 0);
}

#[test]
fn a_dropped_task_replies_eio() {
    let Some(mount) = faulty_mount() else { return };
    let path = mount.path("in an hour");
    let (errno, _mount) = thread::scope(|scope| {
        let waiting = scope.spawn(|| errno(File::open(path).unwrap().read_at(&mut [0; 10], 0)));
        until("it waits", || mount.session.counts().waiting == 1);
        let rest = mount.stop_runtime();
        (waiting.join().unwrap(), rest)
    });
    assert_eq!(errno, libc::EIO);
}

#[test]
fn a_handler_without_a_waker_replies_eio() {
    let Some(mount) = faulty_mount() else { return };
    assert_eq!(errno(read(&mount, "never answers", 10)), libc::EIO);
    assert_eq!(mount.session.counts().waiting, 0);
}

#[test]
fn a_spawner_that_panics_fails_its_request_and_no_worker() {
    if !have_fuse() {
        return;
    }
    let spawner = |_| -> Spawner { Arc::new(|_| panic!("on purpose, in the spawner")) };
    let mount = TestMount::with_spawner(FaultyFs::new(), config(), spawner).unwrap();
    for _ in 0..20 {
        assert_eq!(errno(read(&mount, "slow", 10)), libc::EIO);
    }
    assert_eq!(read(&mount, "plain", 3).unwrap(), b"...");
    assert_eq!(mount.session.counts().waiting, 0);
}

#[test]
fn a_reply_longer_than_requested_becomes_eio() {
    let Some(mount) = faulty_mount() else { return };
    assert_eq!(errno(read(&mount, "longer than asked", 10)), libc::EIO);
    let mut value = [0; 10];
    let long = rustix::fs::getxattr(mount.path("plain"), "user.long", &mut value[..]);
    assert_eq!(long, Err(rustix::io::Errno::IO));
}

#[test]
fn an_error_reaches_the_program_unchanged() {
    let Some(mount) = faulty_mount() else { return };
    assert_eq!(errno(read(&mount, "error", 10)), libc::EDQUOT);
    // Not implemented.
    assert_eq!(errno(std::fs::read_link(mount.path("plain"))), libc::EINVAL);
    assert_eq!(
        errno(std::fs::create_dir(mount.path("directory"))),
        libc::ENOSYS
    );
}

#[test]
fn reply_data_arrives_from_every_source() {
    let Some(mount) = faulty_mount() else { return };
    let pieces = read(&mount, "pieces", 5000).unwrap();
    assert!(
        pieces.len() == 5000
            && pieces
                .iter()
                .enumerate()
                .all(|(n, byte)| *byte == (n % 200) as u8)
    );
    assert!(read(&mount, "scratch", 8192).unwrap() == [b'c'; 4096]);
}

#[test]
fn kept_payloads_stay_unchanged() {
    let Some(mount) = faulty_mount() else { return };
    let file = OpenOptions::new()
        .write(true)
        .open(mount.path("keeps what is written"))
        .unwrap();
    for n in 0..30u8 {
        let size = if n % 2 == 0 { 1 << 20 } else { 100 };
        assert_eq!(file.write_at(&vec![n; size], 0).unwrap(), size);
    }
}

#[test]
fn a_creating_request_carries_the_directorys_group_of_a_member() {
    let Some(mount) = faulty_mount() else { return };
    let touch = |group: u32| {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=1234",
            "--regid=1234",
            &format!("--groups={group}"),
            "touch",
        ]);
        command
            .arg(mount.path(&format!("new {group}")))
            .output()
            .unwrap();
    };
    touch(0);
    touch(777);
    assert_eq!(*mount.fs.groups.lock().unwrap(), [vec![0], vec![]]);
}

#[test]
fn a_device_that_is_polled_before_sleeping_serves_requests() {
    let mut config = config();
    config.idle_spin = Some(Duration::from_micros(50));
    let Some(mount) = TestMount::new(FaultyFs::new(), config) else {
        return;
    };
    for _ in 0..100 {
        assert_eq!(read(&mount, "plain", 3).unwrap(), b"...");
    }
    thread::sleep(Duration::from_millis(20));
    assert_eq!(read(&mount, "slow", 2).unwrap(), b"ss");
}

/// Runs a Python script of assertions with the path of a file as its argument.
fn python(script: &str, path: &std::path::Path) {
    let output = Command::new("python3")
        .arg("-c")
        .arg(script)
        .arg(path)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn an_ioctl_carries_bytes_both_ways() {
    let Some(mount) = faulty_mount() else { return };
    let script = r"
import fcntl, sys
data = bytearray(b'12345678')
# _IOWR('d', 1, 8 bytes)
assert fcntl.ioctl(open(sys.argv[1]), 0xc0086401, data, True) == 42
assert data == b'87654321', data
";
    python(script, &mount.path("plain"));
}

#[test]
fn a_program_that_polls_is_woken_by_a_notification() {
    let Some(mount) = faulty_mount() else { return };
    let script = r"
import select, sys
file = open(sys.argv[1])
poll = select.poll()
poll.register(file, select.POLLIN)
assert poll.poll(0) == []
assert poll.poll(10000)[0][1] == select.POLLIN
";
    let path = mount.path("plain");
    thread::scope(|scope| {
        let program = scope.spawn(|| python(script, &path));
        // Only the second poll requests a wake-up: the first does not wait.
        let polls = || mount.fs.polls.lock().unwrap().clone();
        until("it waits", || polls().len() == 1);
        mount.fs.ready.store(true, Ordering::Relaxed);
        mount.session.notifier().poll(polls()[0]).unwrap();
        program.join().unwrap();
    });
}

#[test]
fn a_file_is_opened_by_handle_after_its_dentry_is_dropped() {
    let Some(mount) = crate::test_mount::memory() else {
        return;
    };
    std::fs::create_dir(mount.path("directory")).unwrap();
    std::fs::write(mount.path("directory/file"), "found").unwrap();
    let script = r"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
handle = (ctypes.c_uint * 40)(128)
mount = ctypes.c_int()
path = sys.argv[1].encode()
assert libc.name_to_handle_at(-100, path, handle, ctypes.byref(mount), 0) == 0, ctypes.get_errno()
root = os.open(os.path.dirname(os.path.dirname(path)), os.O_RDONLY)
open('/proc/sys/vm/drop_caches', 'w').write('2')
fd = libc.open_by_handle_at(root, handle, os.O_RDONLY)
assert fd >= 0, ctypes.get_errno()
assert os.read(fd, 100) == b'found'
";
    python(script, &mount.path("directory/file"));
}
