//! The ways of a request through the door.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use gupfs_fuse::{Spawner, pages_limit};

use crate::odd::Odd;
use crate::rig::{Rig, config, errno, have_fuse, until};

fn odd() -> Option<Rig<Odd>> {
    Rig::new(Odd::new(), config())
}

fn read(rig: &Rig<Odd>, name: &str, size: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    let count = File::open(rig.path(name))?.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    Ok(bytes)
}

#[test]
fn a_handler_that_panics_answers_eio_and_the_next_request_is_served() {
    let Some(rig) = odd() else { return };
    // More than there are reactors.
    for _ in 0..20 {
        assert_eq!(errno(read(&rig, "panics", 10)), libc::EIO);
        assert_eq!(errno(read(&rig, "panics later", 10)), libc::EIO);
    }
    assert_eq!(read(&rig, "plain", 3).unwrap(), b"...");
    until("nothing waits", || rig.session.counts().waiting == 0);
}

#[test]
fn each_mib_is_one_request_wherever_the_buffer_begins() {
    // As a mounting program does that may.
    if let Err(error) = pages_limit::raise(config().max_pages) {
        eprintln!("not tested: fs.fuse.max_pages_limit cannot be raised: {error}");
        return;
    }
    let Some(rig) = odd() else { return };
    let file = File::open(rig.path("plain")).unwrap();
    let (mib, page) = (1 << 20, 4096);
    let mut room = vec![0; 3 * mib + 2 * page];
    let begin = room.as_ptr().align_offset(page);
    for past in [0, 16, page - 1] {
        let piece = &mut room[begin + past..][..3 * mib];
        assert_eq!(file.read_at(piece, 0).unwrap(), 3 * mib);
        let reads = std::mem::take(&mut *rig.fs.reads.lock().unwrap());
        let each = [0, 1, 2].map(|number| (number * mib as u64, mib as u32));
        assert_eq!(reads, each, "of a buffer {past} bytes behind a page");
    }
}

#[test]
fn what_cannot_be_answered_at_once_is_answered_later_and_holds_up_nobody() {
    let Some(rig) = odd() else { return };
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| assert_eq!(read(&rig, "slow", 2).unwrap(), b"ss"));
        }
        assert_eq!(read(&rig, "plain", 3).unwrap(), b"...");
    });
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    let counts = rig.session.counts();
    assert_eq!(counts.parked, 40);
    assert!(counts.requests > 80);
    until("nothing waits", || rig.session.counts().waiting == 0);
}

#[test]
fn a_task_that_is_given_up_answers_eio() {
    let Some(rig) = odd() else { return };
    let path = rig.path("in an hour");
    let (errno, _mount) = thread::scope(|scope| {
        let waiting = scope.spawn(|| errno(File::open(path).unwrap().read_at(&mut [0; 10], 0)));
        until("it waits", || rig.session.counts().waiting == 1);
        let rest = rig.stop_runtime();
        (waiting.join().unwrap(), rest)
    });
    assert_eq!(errno, libc::EIO);
}

#[test]
fn a_handler_that_nobody_can_wake_answers_eio() {
    let Some(rig) = odd() else { return };
    assert_eq!(errno(read(&rig, "never answers", 10)), libc::EIO);
    assert_eq!(rig.session.counts().waiting, 0);
}

#[test]
fn a_spawner_that_panics_costs_its_request_and_no_reactor() {
    if !have_fuse() {
        return;
    }
    let spawner = |_| -> Spawner { Arc::new(|_| panic!("on purpose, in the spawner")) };
    let rig = Rig::with_spawner(Odd::new(), config(), spawner).unwrap();
    for _ in 0..20 {
        assert_eq!(errno(read(&rig, "slow", 10)), libc::EIO);
    }
    assert_eq!(read(&rig, "plain", 3).unwrap(), b"...");
    assert_eq!(rig.session.counts().waiting, 0);
}

#[test]
fn an_answer_longer_than_asked_for_is_eio() {
    let Some(rig) = odd() else { return };
    assert_eq!(errno(read(&rig, "longer than asked", 10)), libc::EIO);
    let mut value = [0; 10];
    let long = rustix::fs::getxattr(rig.path("plain"), "user.long", &mut value[..]);
    assert_eq!(long, Err(rustix::io::Errno::IO));
}

#[test]
fn an_error_arrives_as_it_was_given() {
    let Some(rig) = odd() else { return };
    assert_eq!(errno(read(&rig, "error", 10)), libc::EDQUOT);
    // Not implemented.
    assert_eq!(errno(std::fs::read_link(rig.path("plain"))), libc::EINVAL);
    assert_eq!(
        errno(std::fs::create_dir(rig.path("directory"))),
        libc::ENOSYS
    );
}

#[test]
fn bytes_arrive_from_wherever_they_lie() {
    let Some(rig) = odd() else { return };
    let pieces = read(&rig, "pieces", 5000).unwrap();
    assert!(
        pieces.len() == 5000
            && pieces
                .iter()
                .enumerate()
                .all(|(n, byte)| *byte == (n % 200) as u8)
    );
    assert!(read(&rig, "scratch", 8192).unwrap() == [b'c'; 4096]);
}

#[test]
fn payloads_that_are_kept_stay_what_they_were() {
    let Some(rig) = odd() else { return };
    let file = OpenOptions::new()
        .write(true)
        .open(rig.path("keeps what is written"))
        .unwrap();
    for n in 0..30u8 {
        let size = if n % 2 == 0 { 1 << 20 } else { 100 };
        assert_eq!(file.write_at(&vec![n; size], 0).unwrap(), size);
    }
}

#[test]
fn a_creating_request_says_if_the_caller_is_in_the_directorys_group() {
    let Some(rig) = odd() else { return };
    let touch = |group: u32| {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=1234",
            "--regid=1234",
            &format!("--groups={group}"),
            "touch",
        ]);
        command
            .arg(rig.path(&format!("new {group}")))
            .output()
            .unwrap();
    };
    touch(0);
    touch(777);
    assert_eq!(*rig.fs.groups.lock().unwrap(), [vec![0], vec![]]);
}

#[test]
fn a_device_that_is_asked_again_and_again_before_sleeping_serves_too() {
    let mut config = config();
    config.on_idle_spin = Some(Duration::from_micros(50));
    let Some(rig) = Rig::new(Odd::new(), config) else {
        return;
    };
    for _ in 0..100 {
        assert_eq!(read(&rig, "plain", 3).unwrap(), b"...");
    }
    thread::sleep(Duration::from_millis(20));
    assert_eq!(read(&rig, "slow", 2).unwrap(), b"ss");
}

/// Runs a script that asserts, with the path of a file as its argument.
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
    let Some(rig) = odd() else { return };
    let script = r"
import fcntl, sys
data = bytearray(b'12345678')
# _IOWR('d', 1, 8 bytes)
assert fcntl.ioctl(open(sys.argv[1]), 0xc0086401, data, True) == 42
assert data == b'87654321', data
";
    python(script, &rig.path("plain"));
}

#[test]
fn a_program_that_polls_is_woken_by_a_notice() {
    let Some(rig) = odd() else { return };
    let script = r"
import select, sys
file = open(sys.argv[1])
poll = select.poll()
poll.register(file, select.POLLIN)
assert poll.poll(0) == []
assert poll.poll(10000)[0][1] == select.POLLIN
";
    let path = rig.path("plain");
    thread::scope(|scope| {
        let program = scope.spawn(|| python(script, &path));
        // Asked for by the second poll only: the first does not wait.
        let polls = || rig.fs.polls.lock().unwrap().clone();
        until("it waits", || polls().len() == 1);
        rig.fs.ready.store(true, Ordering::Relaxed);
        rig.session.notifier().poll(polls()[0]).unwrap();
        program.join().unwrap();
    });
}

#[test]
fn a_file_is_found_by_its_handle_without_its_name() {
    let Some(rig) = crate::rig::memory() else {
        return;
    };
    std::fs::create_dir(rig.path("directory")).unwrap();
    std::fs::write(rig.path("directory/file"), "found").unwrap();
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
    python(script, &rig.path("directory/file"));
}
