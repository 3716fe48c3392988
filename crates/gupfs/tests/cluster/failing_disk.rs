//! A disk that fails: XFS on a loop device on a sparse file in a tmpfs.
//!
//! When the tmpfs is full, a block that was never written cannot be written: the kernel's write-back of it fails, and its
//! page stays in memory as if it were clean. Blocks that were written before can be written again.
//!
//! Only data is lost. XFS's log is written at the beginning, so that every change of metadata can be logged; XFS keeps a metadata block
//! whose write failed in memory and writes it again until that succeeds. ext4 would abort its journal and become read-only as soon as the
//! write of a new block of a directory or of a file's extents fails, and how many a test needs depends on the load of the host.

use crate::images::run;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// The log of XFS, in MiB. It has to hold all changes of metadata while the disk fails: it is freed only after they are written.
const LOG_MIB: u64 = 128;

/// A server creates segments of its log in advance within this time.
const QUIET: Duration = Duration::from_millis(300);

pub struct FragileDisk {
    /// Where the file system is mounted.
    pub at: PathBuf,
    below: PathBuf,
    dir: tempfile::TempDir,
}

impl FragileDisk {
    /// Capacity in MiB before the disk fails; the directories and inodes of the file system itself use some of it.
    pub fn make(mib: u64) -> FragileDisk {
        let dir = tempfile::Builder::new().prefix("gupfs-fragile-").tempdir();
        let dir = dir.expect("a temporary directory");
        let (at, below) = (dir.path().join("at"), dir.path().join("below"));
        fs::create_dir(&at).unwrap();
        fs::create_dir(&below).unwrap();
        let size = format!("size={}M", mib + LOG_MIB);
        must("mount", &["-t", "tmpfs", "-o", &size, "none", text(&below)]);
        let disk = FragileDisk { at, below, dir };
        let image = disk.image();
        File::create(&image).unwrap().set_len(3 << 30).unwrap();
        let log = format!("size={LOG_MIB}m");
        must("mkfs.xfs", &["-q", "-K", "-l", &log, text(&image)]);
        disk.write_log();
        disk.mount();
        disk
    }

    /// Writes all blocks of the log again, so that they are allocated.
    fn write_log(&self) {
        let image = self.image();
        let fields = ["logstart", "logblocks", "agblocks", "agblklog", "blocksize"];
        let print = format!("print {}", fields.join(" "));
        let printed = output("xfs_db", &["-r", "-c", "sb 0", "-c", &print, text(&image)]);
        let [start, blocks, group_blocks, group_bits, block_size] = fields.map(|field| {
            let line = printed.lines().find_map(|line| line.strip_prefix(field));
            let value = line.and_then(|line| line.strip_prefix(" = "));
            number(value.unwrap_or_else(|| panic!("xfs_db prints no {field}: {printed}")))
        });
        // A block's number is that of its allocation group, then that within the group.
        let (group, within) = (start >> group_bits, start & ((1 << group_bits) - 1));
        let at = (group * group_blocks + within) * block_size;
        let mut log = vec![0; (blocks * block_size) as usize];
        assert_eq!(log.len() as u64, LOG_MIB << 20, "{printed}");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&image)
            .unwrap();
        file.read_exact_at(&mut log, at).unwrap();
        file.write_all_at(&log, at).unwrap();
        let allocated = fs::metadata(&image).unwrap().blocks() * 512;
        assert!(allocated >= LOG_MIB << 20, "the log is not allocated");
    }

    fn image(&self) -> PathBuf {
        self.below.join("image")
    }

    pub fn mount(&self) {
        let how = "loop,nodiscard";
        must("mount", &["-o", how, text(&self.image()), text(&self.at)]);
    }

    /// Drops everything that is not on the disk, as a power loss does. Its users have ended.
    pub fn mount_anew(&self) {
        for _ in 0..100 {
            // A process that has just ended may still use it.
            if run("umount", &[text(&self.at)]).is_ok() {
                return self.mount();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("'{}' is in use", self.at.display());
    }

    /// Waits until no process writes to it, and discards the blocks of removed files: they are allocated, and writes to them would
    /// succeed after the failure.
    pub fn settle(&self) {
        let blocks = || fs::metadata(self.image()).unwrap().blocks();
        let mut before = 0;
        while blocks() != before {
            before = blocks();
            std::thread::sleep(QUIET);
            must("sync", &["-f", text(&self.at)]);
        }
        // XFS frees the blocks of removed files in the background; freezing waits for that.
        must("fsfreeze", &["--freeze", text(&self.at)]);
        must("fsfreeze", &["--unfreeze", text(&self.at)]);
        must("fstrim", &[text(&self.at)]);
    }

    /// From now on it accepts no new blocks.
    pub fn fail(&self) {
        let filler = File::create(self.below.join("filler")).unwrap();
        let zeros = vec![0; 1 << 20];
        let mut at = 0;
        while let Ok(wrote) = filler.write_at(&zeros, at) {
            at += wrote as u64;
        }
    }

    pub fn heal(&self) {
        fs::remove_file(self.below.join("filler")).unwrap();
        // Otherwise a test would see another failure than the one that it checks.
        let probe = self.at.join("healed");
        let written = fs::write(&probe, b"healed").and_then(|()| File::open(&probe)?.sync_all());
        written.expect("the disk lost more than data: its file system has failed");
        fs::remove_file(probe).unwrap();
    }
}

impl Drop for FragileDisk {
    fn drop(&mut self) {
        // If the disk still fails: so that XFS can write its metadata and ends.
        let _ = fs::remove_file(self.below.join("filler"));
        let _ = run("umount", &["-l", text(&self.at)]);
        let _ = run("umount", &["-l", text(&self.below)]);
        let _ = &self.dir;
    }
}

/// Another program's syncfs(2) of a file system, again and again.
pub struct Syncer {
    going: Arc<AtomicBool>,
    errors: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    pub fn start(dir: &Path) -> Syncer {
        let (going, errors) = (Arc::new(AtomicBool::new(true)), Arc::<AtomicU64>::default());
        let dir = File::open(dir).unwrap();
        let thread = std::thread::spawn({
            let (going, errors) = (going.clone(), errors.clone());
            move || {
                while going.load(Relaxed) {
                    if rustix::fs::syncfs(dir.as_fd()).is_err() {
                        errors.fetch_add(1, Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        });
        Syncer {
            going,
            errors,
            thread: Some(thread),
        }
    }

    /// The number of errors that it got.
    pub fn leave(mut self) -> u64 {
        self.going.store(false, Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.errors.load(Relaxed)
    }
}

/// Drops the clean pages of the files in a directory, so that reads return what is on the disk.
pub fn forget_pages(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            forget_pages(&entry.path());
        } else if entry.file_type().unwrap().is_file()
            && let Ok(file) = File::open(entry.path())
        {
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        }
    }
}

fn number(text: &str) -> u64 {
    text.parse()
        .unwrap_or_else(|_| panic!("'{text}' is no number"))
}

fn must(program: &str, args: &[&str]) {
    run(program, args).unwrap_or_else(|error| panic!("{error}"));
}

fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary path is text")
}
