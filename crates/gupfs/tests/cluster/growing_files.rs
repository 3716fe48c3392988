//! Programs read a file that a program on another mount is writing: each sees a prefix of it that is no shorter than what was acknowledged.

use crate::running::{TIMEOUT, can_mount};
use crate::test_cluster::{TestCluster, text};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

fn length() -> Duration {
    let set = std::env::var("GUPFS_CLUSTER_GROWS");
    Duration::from_secs(set.map_or(2, |set| set.parse().unwrap()))
}

const LINE: usize = 16;

/// Lines with their number, from this one on.
fn lines(first: usize, count: usize) -> Vec<u8> {
    let lines = (first..first + count).map(|number| format!("{number:015}\n"));
    lines.collect::<String>().into_bytes()
}

/// A file of numbered lines, and how many of them the kernel has acknowledged.
struct Growing<'a> {
    name: &'static str,
    acknowledged: AtomicUsize,
    is_over: &'a AtomicBool,
}

impl Growing<'_> {
    fn write(&self, mount: &Path) {
        let append = self.name == "appended";
        let mut file = OpenOptions::new()
            .write(!append)
            .append(append)
            .open(mount.join(self.name))
            .unwrap();
        let mut written = 0;
        for round in 0.. {
            if self.is_over.load(Relaxed) {
                return;
            }
            // Mostly small ones, which the mount keeps for a moment, and some that go to the object servers at once.
            let count = if round % 50 == 49 {
                6_000
            } else {
                1 + round * 7 % 300
            };
            file.write_all(&lines(written, count)).unwrap();
            written += count;
            self.acknowledged.store(written, SeqCst);
            std::thread::sleep(Duration::from_millis(1 + round as u64 % 3));
        }
    }

    /// Repeats a way to read the whole file, until the writer ends. Returns how many times.
    fn read(&self, mut read: impl FnMut() -> Vec<u8>) -> u64 {
        let mut reads = 0;
        while !self.is_over.load(Relaxed) {
            let least = self.acknowledged.load(SeqCst) * LINE;
            let bytes = read();
            assert!(bytes.len() >= least, "{} of {least} bytes", bytes.len());
            assert_eq!(bytes.len() % LINE, 0, "a write was seen in part");
            assert!(bytes == lines(0, bytes.len() / LINE), "other bytes");
            reads += 1;
        }
        reads
    }
}

/// Copies into a file of another file system (by read and write), or into one of this mount (by copy_file_range).
fn copied(from: &Path, to: &Path) -> Vec<u8> {
    let status = Command::new("cp").arg(from).arg(to).status().unwrap();
    assert!(status.success(), "cp {}", from.display());
    fs::read(to).unwrap()
}

/// All of a file by sendfile(2). Linux limits it to the size that it has for the inode. That may be less than what fstat has just returned: it discards
/// the reply if one to another program, with an older size, came while the request was under way (docs/verify.md). So this looks again.
fn sent(file: &File, to: &Path) -> Vec<u8> {
    let out = File::create(to).unwrap();
    let (mut at, mut looks) = (0, 0);
    loop {
        let size = file.metadata().unwrap().len();
        looks += 1;
        while at < size {
            let rest = (size - at) as usize;
            if rustix::fs::sendfile(&out, file, Some(&mut at), rest).unwrap() == 0 {
                break;
            }
        }
        if at >= size {
            return fs::read(to).unwrap();
        }
        assert!(looks < 50, "nothing more at {at} of {size}");
    }
}

/// `tail -f`. inotify reports no changes of other mounts.
struct Tail {
    child: Child,
    to: std::path::PathBuf,
}

impl Tail {
    fn start(file: &Path, to: &Path) -> Tail {
        let args = ["-c", "+1", "-f", "---disable-inotify", "-s", "0.05"];
        let mut tail = Command::new("tail");
        tail.args(args).arg(file).stderr(Stdio::piped());
        let child = tail.stdout(File::create(to).unwrap()).spawn().unwrap();
        Tail {
            child,
            to: to.to_path_buf(),
        }
    }

    /// What it has printed when that is so long, and its messages (such as "file truncated").
    fn end(mut self, length: usize) -> Vec<u8> {
        let begun = Instant::now();
        while (fs::metadata(&self.to).unwrap().len() as usize) < length {
            assert!(begun.elapsed() < TIMEOUT, "tail does not print the end");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.child.kill().unwrap();
        let output = self.child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        fs::read(&self.to).unwrap()
    }
}

fn reads_a_growing_file(name: &'static str) {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(2, 2);
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    let here = tempfile::tempdir().unwrap();
    let is_over = AtomicBool::new(false);
    let file = Growing {
        name,
        acknowledged: AtomicUsize::new(0),
        is_over: &is_over,
    };
    File::create(a.join(name)).unwrap();
    let at_b = b.join(name);
    let tail = Tail::start(&at_b, &here.path().join("tail"));
    let kept = File::open(&at_b).unwrap();
    let reads = std::thread::scope(|scope| {
        let ending = crate::load::Ends(&is_over);
        scope.spawn(|| file.write(a));
        let reads = [
            scope.spawn(|| file.read(|| copied(&at_b, &here.path().join("copy")))),
            scope.spawn(|| file.read(|| copied(&at_b, &b.join("copy")))),
            scope.spawn(|| file.read(|| sent(&kept, &here.path().join("sent")))),
            scope.spawn(|| {
                let open = || File::open(&at_b).unwrap();
                file.read(|| sent(&open(), &here.path().join("sent again")))
            }),
        ];
        std::thread::sleep(length());
        drop(ending);
        reads.map(|reader| reader.join().unwrap())
    });
    let written = file.acknowledged.load(SeqCst);
    assert!(tail.end(written * LINE) == lines(0, written), "tail -f");
    let count = Command::new("wc").args(["-l", &text(&at_b)]).output();
    let count = String::from_utf8(count.unwrap().stdout).unwrap();
    assert!(count.starts_with(&format!("{written} ")), "{count}");
    eprintln!(
        "{written} lines; copies to a local file and to this mount, sendfile of a kept and of a new descriptor: {reads:?}"
    );
    assert!(reads.iter().all(|reads| *reads > 1), "{reads:?}");
    drop(kept);
    cluster.stop();
}

#[test]
fn programs_read_a_prefix_of_a_file_that_another_mount_writes() {
    reads_a_growing_file("written");
}

#[test]
fn programs_read_a_prefix_of_a_log_to_which_another_mount_appends() {
    reads_a_growing_file("appended");
}
