//! Two mounts fill the disk of the object servers: what was acknowledged and synced is there, and no failure is silent.

use crate::images::run;
use crate::random::Random;
use crate::running::{TIMEOUT, can_mount};
use crate::test_cluster::{TestCluster, text};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// ext4 on a loop device on a sparse file.
pub struct SmallDisk {
    pub at: PathBuf,
    _dir: tempfile::TempDir,
}

impl SmallDisk {
    pub fn make(mib: u64) -> SmallDisk {
        let dir = tempfile::Builder::new().prefix("gupfs-small-").tempdir();
        let dir = dir.unwrap();
        let (at, image) = (dir.path().join("at"), dir.path().join("image"));
        fs::create_dir(&at).unwrap();
        File::create(&image).unwrap().set_len(mib << 20).unwrap();
        run("mkfs.ext4", &["-q", "-F", "-m", "0", &text(&image)]).unwrap();
        run("mount", &["-o", "loop", &text(&image), &text(&at)]).unwrap();
        SmallDisk { at, _dir: dir }
    }

    /// Another program takes all space but this, or all of it when others write so much between the two system calls.
    pub fn fill(&self, rest: u64) -> PathBuf {
        let path = self.at.join("of another program");
        let file = File::create(&path).unwrap();
        let stat = rustix::fs::statvfs(&self.at).unwrap();
        let length = stat.f_bavail * stat.f_frsize - rest;
        let filled = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length);
        assert!(matches!(filled, Ok(()) | Err(rustix::io::Errno::NOSPC)));
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = run("umount", &["-l", &text(&self.at)]);
    }
}

/// Does what its input says, and answers with the result of the system call: the number of bytes, "done", or the error's name.
const WRITER: &str = r"
import errno, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644)
for line in sys.stdin:
    call, *numbers = line.split()
    try:
        if call == 'write':
            at, length = map(int, numbers)
            # Each record is filled with its number.
            print(os.pwrite(fd, bytes([1 + at // length % 255]) * length, at), flush=True)
        else:
            os.fsync(fd) if call == 'fsync' else os.close(fd)
            print('done', flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
";

/// A program that writes records in order into a file of its own, and the results that it got.
struct Writer {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    name: String,
    record: usize,
    /// Bytes that writes acknowledged, and those of them that a later fsync acknowledged, none having failed before.
    written: usize,
    synced: usize,
    /// Errors of writes; of fsync and close.
    write_errors: usize,
    sync_errors: usize,
}

impl Writer {
    fn start(mount: &Path, name: String, record: usize) -> Writer {
        let mut python = Command::new("python3");
        python.args(["-c", WRITER]).arg(mount.join(&name));
        python.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        Writer {
            orders: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
            name,
            record,
            written: 0,
            synced: 0,
            write_errors: 0,
            sync_errors: 0,
        }
    }

    fn ask(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim().to_string()
    }

    /// False if the disk was full.
    fn write(&mut self) -> bool {
        let answer = self.ask(&format!("write {} {}", self.written, self.record));
        match answer.parse::<usize>() {
            Ok(length) => {
                assert!(length > 0 && length <= self.record);
                self.written += length;
                length == self.record
            }
            Err(_) => {
                assert_eq!(answer, "ENOSPC", "a write of '{}'", self.name);
                self.write_errors += 1;
                false
            }
        }
    }

    /// False if bytes were lost, or more than that.
    fn sync(&mut self, call: &str) -> bool {
        let answer = self.ask(call);
        if answer != "done" {
            assert_eq!(answer, "ENOSPC", "{call} of '{}'", self.name);
            self.sync_errors += 1;
            return false;
        }
        // After an error that said that bytes are lost, a later success is about the bytes since.
        if call == "fsync" && self.sync_errors == 0 {
            self.synced = self.written;
        }
        true
    }

    fn end(&mut self) {
        self.sync("close");
    }

    /// How many of its acknowledged bytes a mount has. Those that it has synced are among them, and all others unless an error was reported.
    fn check(&self, mount: &Path) -> usize {
        let found = fs::read(mount.join(&self.name)).unwrap();
        assert!(found.len() <= self.written, "longer than what was written");
        let expected = (0..self.written).map(|at| (1 + at / self.record % 255) as u8);
        let right = found
            .iter()
            .zip(expected)
            .take_while(|(found, it)| *found == it);
        let right = right.count();
        let name = &self.name;
        assert!(
            right >= self.synced,
            "{name}: {right} of {} synced bytes, {} of writes and {} of fsync failed",
            self.synced,
            self.write_errors,
            self.sync_errors
        );
        let is_whole = right == self.written;
        assert!(is_whole || self.sync_errors > 0, "{name}: lost in silence");
        right
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two writers on each mount.
fn start_writers(cluster: &TestCluster, kind: &str, record: usize) -> Vec<Writer> {
    let writer = |number: usize| {
        let mount = &cluster.mounts[number % 2].at;
        Writer::start(mount, format!("{kind}{number}"), record)
    };
    (0..4).map(writer).collect()
}

/// All write until each has seen the full disk, or for so many records.
fn write_until_full(writers: &mut [Writer], records: usize) {
    std::thread::scope(|scope| {
        for (number, writer) in writers.iter_mut().enumerate() {
            let mut random = Random::with_seed(number as u64);
            scope.spawn(move || {
                for _ in 0..records {
                    if !writer.write() && !writer.write() {
                        break;
                    }
                    if random.below(20) == 0 {
                        writer.sync("fsync");
                    }
                }
            });
        }
    });
}

/// Ends the writers, and checks their files through the mounts on which they did not run.
fn check(cluster: &TestCluster, writers: &mut [Writer]) {
    for (number, writer) in writers.iter_mut().enumerate() {
        writer.end();
        let found = writer.check(&cluster.mounts[(number + 1) % 2].at);
        eprintln!(
            "{}: {found} of {} bytes, {} synced; errors of writes {}, of fsync and close {}",
            writer.name, writer.written, writer.synced, writer.write_errors, writer.sync_errors
        );
    }
}

/// Space becomes free some time after the removal: close(2) returns before the mount has released the file.
fn writes_again(cluster: &TestCluster, kind: &str) {
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    for number in 0..4 {
        fs::remove_file(b.join(format!("{kind}{number}"))).unwrap();
    }
    let bytes: Vec<u8> = (0..8 << 20).map(|at| (at / 1_000) as u8).collect();
    let begun = Instant::now();
    loop {
        let file = File::create(a.join("again")).unwrap();
        let written = file.write_all_at(&bytes, 0).and_then(|()| file.sync_all());
        let Err(error) = written else { break };
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        assert!(begun.elapsed() < TIMEOUT, "no space becomes free");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(fs::read(b.join("again")).unwrap() == bytes);
}

#[test]
fn writers_of_two_mounts_that_fill_a_small_disk_lose_nothing_that_was_acknowledged() {
    if !can_mount() {
        return;
    }
    let disk = SmallDisk::make(100);
    let cluster = TestCluster::with_objects(disk.at.clone(), 1, 2);
    let mut writers = start_writers(&cluster, "small", 47_008);
    write_until_full(&mut writers, 10_000);
    for writer in &writers {
        assert!(writer.write_errors > 0, "{} saw no full disk", writer.name);
    }
    check(&cluster, &mut writers);
    // Here every write goes to the object server before it returns, and has its own error.
    assert!(writers.iter().all(|writer| writer.sync_errors == 0));
    writes_again(&cluster, "small");
    cluster.stop();
    drop(disk);
}

/// With much space a mount answers small writes from its memory. Then another program takes all space at once.
#[test]
fn writes_that_a_full_disk_refuses_after_they_were_answered_are_errors_of_fsync_or_close() {
    if !can_mount() {
        return;
    }
    let disk = SmallDisk::make(6 << 10);
    let cluster = TestCluster::with_objects(disk.at.clone(), 1, 2);
    let mut writers = start_writers(&cluster, "behind", 3_000);
    write_until_full(&mut writers, 300);
    let taken = std::thread::scope(|scope| {
        let filling = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            disk.fill(1 << 20)
        });
        write_until_full(&mut writers, 100_000);
        filling.join().unwrap()
    });
    check(&cluster, &mut writers);
    let told = |of: fn(&Writer) -> usize| writers.iter().map(of).sum::<usize>();
    assert!(told(|writer| writer.sync_errors) > 0, "no flush has failed");
    assert!(
        told(|writer| writer.write_errors) > 0,
        "no write has failed"
    );
    fs::remove_file(taken).unwrap();
    writes_again(&cluster, "behind");
    cluster.stop();
    drop(disk);
}
